"""The phases of an execution: their deadlines, and where the time goes."""

import pytest
import trio

from agentcompass.engine.phases import Phases, PhaseTimedOut


def phases_of_nobody():
    return Phases(lambda _phase, _waits_for: None)


async def test_while_a_phase_is_held_its_clock_stands_still(autojump_clock):
    phases = phases_of_nobody()
    with phases.enter("run", 10):
        await trio.sleep(6)
        phases.hold(True)
        await trio.sleep(1000)
        phases.hold(False)
        await trio.sleep(3)
    phases.settle()
    assert phases.seconds == pytest.approx({"run": 9, "wait": 1000}, abs=1e-6)


async def test_after_it_was_held_it_has_the_rest_of_its_time(autojump_clock):
    phases = phases_of_nobody()
    with pytest.raises(PhaseTimedOut), phases.enter("run", 10):
        await trio.sleep(6)
        phases.hold(True)
        await trio.sleep(1000)
        phases.hold(False)
        await trio.sleep_forever()
    assert trio.current_time() == pytest.approx(1010)


async def test_who_says_so_twice_says_it_once(autojump_clock):
    phases = phases_of_nobody()
    with pytest.raises(PhaseTimedOut), phases.enter("run", 10):
        phases.hold(False)
        for _ in range(2):
            phases.hold(True)
            await trio.sleep(5)
        phases.hold(False)
        phases.hold(False)
        await trio.sleep_forever()
    assert trio.current_time() == pytest.approx(20)


async def test_a_phase_that_ended_while_it_was_held_holds_no_other(autojump_clock):
    phases = phases_of_nobody()
    with phases.enter("run", 10):
        phases.hold(True)
    phases.hold(False)
    with pytest.raises(PhaseTimedOut), phases.enter("evaluate", 7):
        await trio.sleep_forever()
    phases.settle()
    assert phases.seconds["evaluate"] == pytest.approx(7)


async def test_between_phases_there_is_nothing_to_hold(autojump_clock):
    phases = phases_of_nobody()
    phases.hold(True)
    with pytest.raises(PhaseTimedOut), phases.enter("collect", 7):
        await trio.sleep_forever()


async def test_a_phase_without_a_deadline_can_be_held_too(autojump_clock):
    phases = phases_of_nobody()
    with phases.enter("run", 0):
        phases.hold(True)
        await trio.sleep(5)
        phases.hold(False)
        await trio.sleep(5)
    phases.settle()
    assert phases.seconds == pytest.approx({"run": 5, "wait": 5}, abs=1e-6)
