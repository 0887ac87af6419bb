"""What sandboxes used is in the record, whatever becomes of asking for it."""

import pytest
import trio

from agentcompass.components.base import Where
from agentcompass.engine import attempt
from agentcompass.errors import EvaluatorError
from support.scripted import run, scripted_request, tasks

FIGURES = {"memory_peak_bytes": 5, "oom_kills": 2}


def fails(*_args):
    raise EvaluatorError("it ended early")


def asked(where, *, usage=lambda: FIGURES, **benchmark):
    script = {"load": lambda: tasks(1), "where": where, **benchmark}
    return scripted_request(script, {"sandbox": True}, {"usage": usage})


async def test_each_sandbox_has_its_figures(tmp_path):
    fresh = (await run(tmp_path / "a", asked(Where.FRESH))).record()
    reused = (await run(tmp_path / "b", asked(Where.REUSE))).record()
    assert fresh.sandbox == {"agent": FIGURES, "evaluation": FIGURES}
    assert reused.sandbox == {"agent": FIGURES}


async def test_a_failure_names_what_may_be_its_cause(tmp_path):
    record = (await run(tmp_path, asked(Where.REUSE, evaluate=fails))).record()
    assert record.failure.code == "evaluator-failed"
    assert record.failure.message == "it ended early (its memory was used up: 2 processes killed)"
    assert record.sandbox == {"agent": FIGURES}


def _raises():
    raise OSError("gone")


@pytest.mark.parametrize(
    "usage", [_raises, lambda: {"x": object()}, trio.sleep_forever], ids=["raises", "odd", "hangs"]
)
async def test_no_figures_are_no_fault(tmp_path, monkeypatch, usage):
    monkeypatch.setattr(attempt, "USAGE_SECONDS", 0.05)
    record = (await run(tmp_path, asked(Where.REUSE, usage=usage))).record()
    assert record.verdict == "graded"
    assert record.sandbox == {}
