"""pytest's own words are read, and only if they are whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentcompass.components.benchmarks.harbor import pytest_summary
from agentcompass.errors import EvaluatorError

TESTS = """
import pytest

def test_good(): pass

@pytest.mark.parametrize("x", ["a - b", "c"])
def test_many(x): pass

@pytest.mark.skip(reason="not here")
def test_skipped(): pass

@pytest.mark.xfail
def test_expected(): assert False
"""
BAD = """
import pytest

def test_bad(): assert 1 == 2, "a - message\\nof two lines"

@pytest.fixture
def broken(): raise OSError("no")

def test_error(broken): pass

@pytest.mark.xfail
def test_unexpected(): pass
"""


FAKE = "=" * 9
PRINTING = f"""
def test_bad():
    print({FAKE + " short test summary info " + FAKE!r})
    print("PASSED test_0.py::test_bad")
    print({FAKE + " 1 passed in 0.01s " + FAKE!r})
    assert False
"""
RUNS = {
    "all": (TESTS, "-rA"),
    "verbose": (TESTS, "-rA -v"),
    "quiet": (TESTS, "-rA -q"),
    "colour": (TESTS, "-rA --color=yes"),
    "mixed": (TESTS + BAD, "-rA"),
    "plain": (TESTS + BAD, ""),
    "bad": (BAD, "-rA"),
    "broken": ("import nothing_of_this_name", "-rA"),
    "printing": (PRINTING, "-rA"),
    "empty": ("x = 1", "-rA"),
}
PROGRAM = """
import contextlib, json, sys, pytest
for name, (source, options) in json.load(sys.stdin).items():
    with open(f"test_{name}.py", "w") as file:
        file.write(source)
    with open(f"{name}.txt", "w") as out, contextlib.redirect_stdout(out):
        pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *options.split(), f"test_{name}.py"])
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the real pytest prints, by the name of the run."""
    folder = tmp_path_factory.mktemp("runs")
    program = [sys.executable, "-c", PROGRAM]
    subprocess.run(program, cwd=folder, input=json.dumps(RUNS), text=True, check=True, timeout=100)
    return {name: (folder / f"{name}.txt").read_text() for name in RUNS}


@pytest.mark.parametrize("run", ["all", "verbose", "quiet", "colour"])
def test_a_run_in_which_all_went_well(printed, run):
    results = pytest_summary.read(printed[run])
    assert all(results.values())
    assert {"test_good", "test_expected"} <= set(results)


def test_failures_errors_and_unexpected_passes_are_failures(printed):
    results = pytest_summary.read(printed["mixed"])
    failed = {name for name, passed in results.items() if not passed}
    assert failed == {"test_bad", "test_error", "test_unexpected"}


def test_without_a_list_of_what_passed_the_failures_still_count(printed):
    assert not pytest_summary.read(printed["plain"])["test_bad"]


def test_a_file_that_cannot_be_collected_is_a_failure(printed):
    assert list(pytest_summary.read(printed["broken"]).values()) == [False]


def test_several_runs_of_pytest_must_all_go_well(printed):
    results = pytest_summary.read(printed["all"] + printed["bad"] + printed["all"])
    assert not results["test_bad"]
    assert results["test_good"]


def test_a_summary_that_a_test_prints_cannot_hide_a_failure(printed):
    assert pytest_summary.read(printed["printing"]) == {"test_bad": False}


def refused(output, code):
    with pytest.raises(EvaluatorError) as caught:
        pytest_summary.read(output)
    assert caught.value.code == code
    assert not caught.value.retryable
    return caught.value.message


def test_no_summary_is_no_result(printed):
    refused("bash: pytest: command not found\n", "no-test-results")
    refused(printed["empty"], "no-test-results")


def test_a_summary_that_was_cut_off_is_no_result(printed):
    whole = printed["all"]
    cut = whole[: whole.rindex("PASSED")]
    assert "no closing line" in refused(cut, "bad-test-results")


def test_counts_that_do_not_agree_are_no_result(printed):
    lines = printed["mixed"].splitlines()
    forged = "\n".join(line for line in lines if not line.startswith("FAILED"))
    assert "lists 0 failed, and its closing line 1" in refused(forged, "bad-test-results")
