"""The command line under limits of open files (`ulimit -n`)."""

import resource

import pytest

from support.commandline import Program


@pytest.fixture
def evaluate(tmp_path):
    def run(concurrency, soft, hard):
        child = Program(tmp_path).start(
            "run", "humaneval", "oracle", "none", "--task-concurrency", str(concurrency),
            "--benchmark-params", '{"limit": 60}',
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        )  # fmt: skip
        _out, err = child.communicate(timeout=60)
        return child.returncode, err

    return run


def test_a_concurrency_that_cannot_be_carried_is_refused_before_anything_runs(evaluate, tmp_path):
    code, err = evaluate(60, 200, 200)
    assert code == 3
    assert "ulimit -n" in err
    assert "set task_concurrency to 28 or less" in err
    assert not (tmp_path / "results").exists()


def test_the_soft_limit_is_no_limit(evaluate):
    code, err = evaluate(60, 64, 1000)
    assert code == 0, err
