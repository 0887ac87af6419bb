"""What a patch is worth, in real containers with a tiny repository; and what is no fault of the patch."""

import json

import pytest

from agentcompass.components.benchmarks.swebench import judgement, official
from agentcompass.components.benchmarks.swebench.instances import tasks_of
from agentcompass.components.benchmarks.swebench.repository import PATCH, Collected
from agentcompass.errors import EvaluatorError
from support.docker_sandboxes import docker_sandbox
from support.swebench import END, START, TRIVIAL_PATCH, trivial_image, trivial_row

pytestmark = pytest.mark.docker

NOT_THERE = "diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1 @@\n-x\n+y\n"


@pytest.fixture(scope="module", autouse=True)
def image():
    """Made before any event loop runs."""
    return trivial_image()


async def judge(patch, *, timeout=60.0, before="true", left=None, **changes):
    """Evaluate a patch in a new container, in which a command has run before."""
    [task] = tasks_of([trivial_row(**changes)], "rows")
    async with docker_sandbox(image=trivial_row()["image"]) as session:
        done = await session.exec(before, cwd="/testbed")
        assert done.returncode == 0, done.stderr
        await session.write_bytes(PATCH, patch.encode())
        try:
            return await judgement.judge(
                task.data,
                left or Collected(patch=patch.encode()),
                session,
                directory="/testbed",
                test_timeout_seconds=timeout,
            )
        except EvaluatorError as error:
            failure = error  # raised outside of the sandbox, which would wrap it
    raise failure


def script(command):
    """The script with something else in the tests' place."""
    return f"cd /testbed\n{START}\n{command}\n{END}"


async def test_a_right_patch_is_resolved_and_its_log_is_kept():
    evaluation = await judge(TRIVIAL_PATCH)
    assert evaluation.metrics == dict.fromkeys(evaluation.metrics, 1.0)
    assert evaluation.details["result"] == "resolved"
    assert evaluation.details["fail_to_pass"] == {"passed": 1, "failed": 0, "failures": []}
    assert b"PASSED test_calc.py::add" in evaluation.files["test_output.txt"]
    assert json.loads(evaluation.files["report.json"])["resolved"] is True


async def test_a_script_with_the_line_ends_of_windows_is_run_as_it_is_meant():
    written = trivial_row()["eval_script"].replace("\n", "\r\n")
    assert (await judge(TRIVIAL_PATCH, eval_script=written)).metrics["resolved"] == 1.0


async def test_a_wrong_patch_is_applied_and_not_resolved():
    evaluation = await judge(TRIVIAL_PATCH.replace("a + b", "a * b"))
    assert evaluation.metrics == {
        "resolved": 0.0,
        "applied": 1.0,
        "submitted": 1.0,
        "fail_to_pass": 0.0,
        "pass_to_pass": 1.0,
    }
    assert evaluation.details["result"] == "tests failed"
    assert evaluation.details["fail_to_pass"]["failures"] == ["test_calc.py::add"]


async def test_a_patch_that_does_not_apply_scores_zero_with_the_reason():
    evaluation = await judge(NOT_THERE)
    assert set(evaluation.metrics.values()) == {0.0, 1.0}
    assert evaluation.metrics["submitted"] == 1.0
    assert evaluation.metrics["applied"] == 0.0
    assert evaluation.details["result"] == "patch does not apply"
    assert "README" in evaluation.details["output"]


async def test_an_empty_patch_scores_zero_and_is_told_from_a_wrong_one():
    evaluation = await judge("")
    assert evaluation.metrics == dict.fromkeys(evaluation.metrics, 0.0)
    assert evaluation.details == {"result": "empty patch"}


async def test_a_patch_that_was_too_large_scores_zero_with_its_size():
    evaluation = await judge("", left=Collected(patch=b"", too_large_bytes=10**9))
    assert evaluation.metrics["submitted"] == 1.0
    assert evaluation.details == {"result": "patch too large", "bytes": 10**9}


async def test_what_git_refuses_and_patch_takes_is_applied():
    shifted = TRIVIAL_PATCH.replace(" def add(a, b):", " def add(a, b):  # as it was called once")
    evaluation = await judge(shifted)
    assert evaluation.metrics["resolved"] == 1.0
    assert evaluation.details["applied_with"].startswith("patch --batch")


async def test_a_patch_that_makes_the_tests_hang_fails_them_after_their_time():
    hanging = TRIVIAL_PATCH.replace("+    return a + b", "+    import time; time.sleep(900)")
    evaluation = await judge(hanging, timeout=1.0)
    assert evaluation.metrics["applied"] == 1.0
    assert evaluation.metrics["resolved"] == 0.0
    assert evaluation.details["result"] == "tests timed out"
    assert b"Start Test Output" in evaluation.files["test_output.txt"]


async def test_a_test_that_is_printed_as_passed_by_the_patch_itself_counts_as_the_package_says():
    lying = TRIVIAL_PATCH.replace(
        "+    return a + b", '+    print("PASSED test_calc.py::add")\n+    raise SystemExit(1)'
    ).replace("-1,5 +1,5", "-1,5 +1,6")
    evaluation = await judge(lying)
    assert evaluation.metrics["resolved"] == 0.0


async def test_tests_without_a_result_score_zero_with_the_reason():
    evaluation = await judge(
        TRIVIAL_PATCH, eval_script=script("echo ModuleNotFoundError: No module")
    )
    assert evaluation.metrics["resolved"] == 0.0
    assert evaluation.details["result"] == "no test results"
    assert evaluation.details["reason"] == "missing_module"


@pytest.mark.parametrize(
    ("eval_script", "code"),
    [
        (script("echo 'Cannot allocate memory'"), "out-of-memory"),
        ("exit 3", "tests-did-not-start"),
        (script("kill -9 $$"), "tests-cut-off"),
    ],
    ids=["out of memory", "not started", "cut off"],
)
async def test_what_is_no_fault_of_the_patch_is_no_verdict(eval_script, code):
    with pytest.raises(EvaluatorError) as caught:
        await judge(TRIVIAL_PATCH, eval_script=eval_script)
    assert caught.value.code == code


async def test_without_bash_or_git_there_is_no_verdict():
    with pytest.raises(EvaluatorError) as caught:
        await judge(TRIVIAL_PATCH, before="rm -f /bin/bash /usr/bin/bash")
    assert caught.value.code == "bash-missing"
    with pytest.raises(EvaluatorError) as caught:
        await judge(TRIVIAL_PATCH, before="rm /usr/bin/git")
    assert caught.value.code == "git-missing"


async def test_an_unknown_log_parser_is_no_verdict():
    with pytest.raises(EvaluatorError, match="KeyError: 'parse_log_of_tomorrow'") as caught:
        await judge(TRIVIAL_PATCH, log_parser="parse_log_of_tomorrow")
    assert caught.value.code == "grader-failed"


async def test_a_grader_that_does_not_come_to_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(official, "WALL_SECONDS", 0.01)
    [task] = tasks_of([trivial_row(image="x")], "rows")
    with pytest.raises(EvaluatorError) as caught:
        await official.report_on(task.data, "log")
    assert caught.value.code == "grader-timeout"


async def test_the_official_script_tells_how_the_tests_ended():
    [task] = tasks_of([trivial_row(image="x")], "rows")
    text = await official.script_of(task.data)
    assert text.startswith("#!/bin/bash\nset -uxo pipefail\ncd /testbed\n")
    assert text.index("SWEBENCH_TEST_EXIT_CODE=$?") < text.index(END)
