"""One grace for all cleanup of a run."""

import math

import pytest
import trio

from agentcompass.engine.cleanup import CleanupBudget


async def test_cleanup_survives_the_cancellation_around_it(autojump_clock):
    budget = CleanupBudget(10)
    done = []
    with trio.CancelScope() as work:
        work.cancel()
        with budget.shielded():
            await trio.sleep(3)
            done.append("cleaned")
    assert done == ["cleaned"]


@pytest.mark.parametrize(
    ("cleanup_seconds", "ends_at", "is_cut"), [(3, 8, False), (9.5, 14.5, False), (30, 15, True)]
)
async def test_a_cleanup_within_the_grace_ends_and_a_longer_one_is_cut(
    autojump_clock, cleanup_seconds, ends_at, is_cut
):
    budget = CleanupBudget(10)
    begin = trio.current_time()
    await trio.sleep(5)
    budget.start()
    with budget.shielded() as scope:
        await trio.sleep(cleanup_seconds)
    assert trio.current_time() - begin == pytest.approx(ends_at)
    assert scope.cancelled_caught is is_cut


async def test_the_grace_counts_from_the_start_for_cleanup_already_running(autojump_clock):
    budget = CleanupBudget(10)
    begin = trio.current_time()

    async def clean():
        with budget.shielded():
            await trio.sleep(1000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clean)
        await trio.sleep(100)
        budget.start()
    assert trio.current_time() - begin == pytest.approx(110)


async def test_all_cleanup_together_has_one_grace_not_each_its_own(autojump_clock):
    budget = CleanupBudget(10)
    begin = trio.current_time()
    budget.start()
    for _ in range(5):
        with budget.shielded():
            await trio.sleep(4)
    assert trio.current_time() - begin == pytest.approx(10)


async def test_a_limit_of_its_own_cuts_one_cleanup_and_no_other(autojump_clock):
    budget = CleanupBudget(10)
    cut = {}

    async def clean(name, limit):
        with budget.shielded(limit) as scope:
            await trio.sleep(5)
        cut[name] = scope.cancelled_caught

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clean, "limited", 2)
        nursery.start_soon(clean, "free", math.inf)
    assert cut == {"limited": True, "free": False}


async def test_starting_again_gives_no_new_grace(autojump_clock):
    budget = CleanupBudget(10)
    budget.start()
    deadline = budget.deadline
    await trio.sleep(5)
    budget.start()
    assert budget.deadline == deadline


async def test_expiring_ends_all_cleanup_at_once_also_what_comes_later(autojump_clock):
    budget = CleanupBudget(10)
    begin = trio.current_time()

    async def clean():
        with budget.shielded():
            await trio.sleep(1000)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(clean)
        await trio.sleep(1)
        budget.expire()
    with budget.shielded() as late:
        await trio.sleep(1000)
    assert late.cancelled_caught
    assert trio.current_time() - begin == pytest.approx(1)


async def test_starting_after_the_end_brings_nothing_back(autojump_clock):
    budget = CleanupBudget(10)
    budget.expire()
    budget.start()
    with budget.shielded() as scope:
        await trio.sleep(1)
    assert scope.cancelled_caught


async def test_without_a_grace_cleanup_is_cut_at_its_first_wait(autojump_clock):
    budget = CleanupBudget(0)
    budget.start()
    steps = []
    with budget.shielded():
        steps.append("synchronous part")
        await trio.sleep(1)
        steps.append("never")
    assert steps == ["synchronous part"]


async def test_an_error_in_cleanup_leaves_nothing_registered(autojump_clock):
    budget = CleanupBudget(10)
    with pytest.raises(OSError, match="full"), budget.shielded():
        raise OSError("full")
    assert not budget._live
