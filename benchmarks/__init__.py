"""Performance: what the engine costs next to the work itself, as ratios within one run.

`python -m benchmarks` runs all and prints a table for each; `python -m benchmarks throughput startup` some. The
figures also go to a JSON file, to be compared over time. Absolute numbers depend on the machine; ratios less so.
"""
