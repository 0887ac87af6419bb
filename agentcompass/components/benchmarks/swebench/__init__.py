"""SWE-bench: real issues of real repositories, judged by the repositories' own tests.

```
benchmark      the four data sets as benchmarks, and their parameters
data           getting the rows: the hub, or a file; `data_child` is the process that does it
instances      what a row says
repository     the agent's sandbox: history removed before, the patch taken after (`prepare.sh`, `collect.sh`)
judgement      the evaluator's sandbox: patch applied, tests run
official       the package `swebench`, asked in a process of its own (`official_child`)
```

Source: Jimenez et al. 2024, "SWE-bench: Can Language Models Resolve Real-World GitHub Issues?" (arXiv 2310.06770), and the
package `swebench` 5.0.2 of its authors, whose order of steps is followed and whose grading is used.
"""
