"""Who leaves the process when a run does not end, and when nobody does. Whole programs: `e2e/test_watchdog.py`."""

import logging
import threading

import pytest

from agentcompass.engine import watchdog as module
from agentcompass.engine.control import Control
from agentcompass.engine.watchdog import watchdog

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("SPARE_SECONDS", "LOOK_SECONDS", "TELL_SECONDS"):
        monkeypatch.setattr(module, name, 0.01)


class Exit:
    """Stands for the end of the process."""

    def __init__(self):
        self.codes, self.left = [], threading.Event()

    def __call__(self, code):
        self.codes.append(code)
        self.left.set()


def watching():
    """The threads of watchdogs; of earlier ones too, which end within a look."""
    return {t for t in threading.enumerate() if t.name == "agentcompass-watchdog"}


@pytest.mark.parametrize(
    ("reason", "code"), [("sigterm", 143), ("sigint", 130), ("sighup", 129), ("caller", 1)]
)
def test_a_run_that_was_asked_to_end_and_does_not_is_left_with_the_code_of_the_reason(
    reason, code, caplog
):
    control, swept, leave = Control(0.0), [], Exit()
    control.sweep = lambda: swept.append(True)
    with caplog.at_level(logging.ERROR), watchdog(control, 0.0, leave=leave):
        control.request_cancel(reason)
        assert leave.left.wait(PATIENCE)
    assert leave.codes == [code]
    assert swept == [True]
    assert "something does not react to the end of the run" in caplog.text


def test_a_run_that_outlives_its_own_limit_is_left_as_timed_out():
    leave = Exit()
    with watchdog(Control(0.0), 0.02, leave=leave):
        assert leave.left.wait(PATIENCE)
    assert leave.codes == [124]


@pytest.mark.parametrize("was_asked", [False, True])
def test_a_run_that_ends_within_the_grace_is_left_alone(was_asked):
    control, leave, before = Control(PATIENCE), Exit(), watching()
    with watchdog(control, PATIENCE, leave=leave):
        if was_asked:
            control.request_cancel("sigint")
        (thread,) = watching() - before
        thread.join(0.1)  # some looks
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert leave.codes == []
