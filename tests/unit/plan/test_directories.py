"""Every run has a directory of its own."""

import pytest

from agentcompass.store.layout import run_dir
from support.resolving import STAMP, launch, problems_of, run
from support.storage import graded, run_info, write_run

DEFAULTS = "defaults: {benchmark: {id: humaneval}, harness: {id: nop}}\n"


@pytest.mark.parametrize(
    ("requests", "place"),
    [
        ("{name: a, output: {run_name: n, run_id: r}}, {name: b, output: {run_name: n, run_id: r}}", None),
        ("{name: a, output: {run_id: r}}, {name: r, output: {run_name: a}}", "3:20: requests[1].output.run_id"),
        ("{name: r, output: {run_name: a}}, {name: a, output: {run_id: r}}", "3:29: requests[1].output.run_id"),
        ("{name: a}, {name: A}", None),
    ],
    ids=["names differ", "inside another", "around another", "only the case differs"],
)  # fmt: skip
def test_two_requests_share_no_output_directory(tmp_path, requests, place):
    first, second = requests.split(", {name", 1)
    text = f"{DEFAULTS}requests: [{first},\n {{name{second}]\n"
    if place is None:
        resolved = launch(text, tmp_path)
        paths = {run_dir(tmp_path, r.run_name, r.name, r.run_id) for r in resolved.requests}
        assert len(paths) == 2
    else:
        (line,) = problems_of(launch, text, tmp_path)
        assert line.startswith(f"spec.yaml:{place}: its results would go to a/r")
        assert "among those of request" in line


def test_with_a_run_id_that_exists_already_nothing_starts(tmp_path):
    write_run(tmp_path / "results/b/mine", [graded("t")], info=run_info("mine"))
    text = DEFAULTS + "requests: [{name: a}, {name: b, output: {run_id: mine}}]\n"
    assert problems_of(launch, text, tmp_path) == [
        "spec.yaml:2:50: requests[1].output.run_id: there is a run of this id already, b/mine: choose another one"
    ]
    assert launch(text.replace("mine", "other"), tmp_path).requests[1].run_id == "other"


def test_a_single_evaluation_names_the_option_that_gave_the_run_id(tmp_path):
    write_run(tmp_path / "results/none_humaneval_nop/mine", [], info=run_info("mine"))
    given = dict(harness="nop", model="none", run_id="mine", model_base_url=None)
    (line,) = problems_of(run, tmp_path, as_flags=True, **given)
    assert line.startswith("--run-id: there is a run of this id already, none_humaneval_nop/mine")
    assert run(tmp_path, **{**given, "run_id": None}).requests[0].run_id == STAMP
