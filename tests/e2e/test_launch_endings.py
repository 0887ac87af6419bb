"""Ctrl-C, SIGTERM and the time limit at random moments of a real launch of six requests: nothing lost, nothing left."""

import itertools

import pytest

from support.interrupts import LAUNCH_KINDS, interrupt_launch, moments
from support.launches import Launch, undisturbed

ENDINGS = list(zip(itertools.cycle(LAUNCH_KINDS), moments(20, "launches", whole=1.0), strict=False))
"""Kinds, and shares of what a whole launch takes here and now: so they are in its middle on any machine."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A launch that nobody ends."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.signals
@pytest.mark.parametrize(("kind", "share"), ENDINGS)
def test_a_launch_that_is_ended_leaves_nothing_and_can_be_finished(tmp_path, whole, kind, share):
    moment = whole.moment(kind, share)
    print(f"{kind} after {moment:.3f} s of {whole.seconds:.1f} s")
    with Launch(tmp_path) as launch:
        interrupt_launch(launch, kind, moment, whole.scores)


@pytest.mark.signals
def test_a_request_that_is_over_keeps_its_result_when_the_others_are_cancelled(tmp_path, whole):
    with Launch(tmp_path) as launch:
        ended = interrupt_launch(
            launch, "ctrl-c", lambda: "completed" in launch.statuses().values(), whole.scores
        )
    assert set(ended.statuses) == {"completed", "cancelled"}
