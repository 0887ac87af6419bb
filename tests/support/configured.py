"""Components with many kinds of parameters, named by import path in tests of how settings are resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from agentcompass.components.base import Harness
from agentcompass.secrets import Secret
from agentcompass.spec.ranges import PositiveInt

HARNESS = "support.configured:TurnLoop"
SECRETIVE = "support.configured:Secretive"
BROKEN = "support.configured:Broken"
DEFAULT_TURNS = 30


@attrs.frozen(kw_only=True)
class TurnLoopParams:
    max_turns: PositiveInt = DEFAULT_TURNS
    label: str = "none"
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Free."""


class TurnLoop(Harness[TurnLoopParams]):
    id = "turn_loop"
    Params = TurnLoopParams

    async def run(self, task_input, session, model, emit):
        raise AssertionError("resolving runs nothing")


@attrs.frozen(kw_only=True)
class SecretiveParams:
    api_key: Secret
    session_token: str = ""
    sort_key: str = "created_at"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    turns: int = attrs.field(default=3, validator=attrs.validators.ge(2))


class Secretive(Harness[SecretiveParams]):
    id = "secretive"
    Params = SecretiveParams
    needs_model = False

    async def run(self, task_input, session, model, emit):
        raise AssertionError("resolving runs nothing")


@attrs.frozen(kw_only=True)
class BrokenParams:
    value: NowhereDefined = None  # noqa: F821  # the fault under test


class Broken(Harness[BrokenParams]):
    id = "broken"
    Params = BrokenParams

    async def run(self, task_input, session, model, emit):
        raise AssertionError("resolving runs nothing")
