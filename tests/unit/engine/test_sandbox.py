"""The task that holds a sandbox open, at moments that a whole run meets only by chance."""

import pytest
import trio
import trio.testing

from agentcompass.components.base import SandboxPlan
from agentcompass.engine.cleanup import CleanupBudget
from agentcompass.engine.sandbox import SandboxHouse, _Holder
from agentcompass.errors import SandboxError
from support.scripted import EnvironmentScript, ScriptedEnvironment
from support.storage import lease


def holder_of(grace_seconds=10.0, **opening):
    ScriptedEnvironment.reset()
    house = SandboxHouse(
        environment=ScriptedEnvironment(EnvironmentScript(**opening)),
        ledger=None,
        budget=CleanupBudget(grace_seconds),
        open_timeout_seconds=5.0,
        close_timeout_seconds=60.0,
        keep=False,
    )
    return _Holder(house, SandboxPlan(), lease(), on_kept=print)


@pytest.fixture
def holder():
    return holder_of()


async def test_one_that_was_let_go_before_it_was_asked_for_closes_as_soon_as_it_is_open(holder):
    holder.let_go()
    await holder.hold()
    assert (holder.was_opened, holder.is_closed) == (True, True)
    assert not ScriptedEnvironment.existing


async def test_one_that_nobody_has_asked_for_in_time_is_late(holder, autojump_clock):
    with pytest.raises(SandboxError, match="not open after 5 s") as caught:
        await holder.opened(5.0)
    assert caught.value.code == "open-timeout"
    assert trio.current_time() == pytest.approx(5.0)


@pytest.mark.parametrize(("grace_seconds", "most"), [(10.0, 2.5), (60.0, 5.0)])
async def test_an_opening_for_which_nobody_waits_any_more_goes_on_for_a_part_of_the_grace(
    autojump_clock, grace_seconds, most
):
    holder = holder_of(grace_seconds, opening=trio.sleep_forever)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(holder.hold)
        await trio.testing.wait_all_tasks_blocked()
        holder._house.budget.start()
        holder.let_go()
    assert trio.current_time() == pytest.approx(most)
    assert (holder.was_asked, holder.is_closed) == (True, False)  # so that it is removed
