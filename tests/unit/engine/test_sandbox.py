"""The task that holds a sandbox open, at moments that a whole run meets only by chance."""

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.engine.cleanup import CleanupBudget
from agentcompass.engine.sandbox import SandboxHouse, _Holder
from agentcompass.errors import SandboxError
from support.scripted import EnvironmentScript, ScriptedEnvironment
from support.storage import lease


@pytest.fixture
def holder():
    ScriptedEnvironment.reset()
    house = SandboxHouse(
        environment=ScriptedEnvironment(EnvironmentScript()),
        ledger=None,
        budget=CleanupBudget(10.0),
        open_timeout_seconds=5.0,
        close_timeout_seconds=5.0,
        keep=False,
    )
    return _Holder(house, SandboxPlan(), lease(), on_kept=print)


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
