"""Ctrl-C, SIGTERM and kill -9 at random moments of a real run on a real terminal: nothing lost, nothing left."""

import pytest

from support.interrupts import KINDS, interrupt, kill, moments
from support.workload import Workload


@pytest.mark.signals
@pytest.mark.parametrize("moment", moments(7, "signals"))
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_ends_in_time_leaves_nothing_and_can_be_finished(tmp_path, kind, moment):
    interrupt(Workload(tmp_path), kind, moment)


@pytest.mark.signals
@pytest.mark.parametrize("moment", moments(30, "kill"))
def test_a_killed_run_loses_only_what_was_in_flight(tmp_path, moment):
    kill(Workload(tmp_path), moment)
