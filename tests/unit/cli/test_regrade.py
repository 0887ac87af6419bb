"""`agentcompass regrade RUN_DIR`."""


def test_it_tells_what_it_evaluates_again(program):
    limit = '{"limit": 2}'
    program(
        *("run", "humaneval", "oracle", "none", "--run-id", "first", "--benchmark-params", limit)
    )
    done = program("regrade", "results/none_humaneval_oracle/first", "--run-id", "second")
    assert done.returncode == 0
    assert "2 attempts of run first evaluated again" in done.stderr
    assert "2 graded" in done.stdout
    assert (program.folder / "results/none_humaneval_oracle/second/metrics.json").exists()


def test_it_says_that_there_is_no_such_run(program):
    done = program("regrade", "nowhere")
    assert (done.returncode, "is not a run directory" in done.stderr) == (2, True)
