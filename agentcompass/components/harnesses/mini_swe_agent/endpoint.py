"""The package's `Model`: asks ours, and reads its replies as the package's own client of OpenAI's protocol does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, final

import attrs
import trio
from minisweagent.exceptions import FormatError
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)

from agentcompass.components.base import KiB, Model
from agentcompass.components.harnesses.mini_swe_agent.account import Account
from agentcompass.components.harnesses.mini_swe_agent.config import ModelPart
from agentcompass.components.harnesses.mini_swe_agent.conversation import (
    Said,
    calls_of,
    kept,
    ours,
    request_params,
)
from agentcompass.components.harnesses.mini_swe_agent.crossing import call
from agentcompass.components.harnesses.tool_loop.tools import cut
from agentcompass.components.messages import Reply, Tool

MAX_RAW_OUTPUT: Final = 64 * KiB
"""Bytes of each output that are remembered beside what the model was told of it."""


@final
class Endpoint:
    """Our model, as the package's agent uses it."""

    def __init__(self, config: ModelPart, model: Model, account: Account) -> None:
        self.config = config
        self._model, self._account = model, account
        described: Any = BASH_TOOL["function"]
        self._tool = Tool(**described)

    def query(self, messages: Sequence[Mapping[str, Any]], **_: object) -> dict[str, Any]:
        """Return what the model says to a conversation, with what it wants done.

        Raises:
            FormatError: It wants nothing done, or what cannot be done.
            ModelError: The endpoint failed.
        """
        reply = call(self._ask, messages)
        extra = {**kept(reply), "timestamp": datetime.now(UTC).timestamp()}
        try:
            actions = self.actions_of(reply)
        except FormatError as error:
            message = error.messages[0]
            message["extra"].update(extra)
            call(self._account.message, message)
            raise
        return Said(reply, actions=actions, **extra)

    def actions_of(self, reply: Reply) -> list[dict[str, Any]]:
        """Return the commands of a reply; FormatError where there are none, or others than that."""
        actions: list[dict[str, Any]] = parse_toolcall_actions(
            calls_of(reply),
            format_error_template=self.config.format_error_template or "",
            template_kwargs={"finish_reason": reply.stop_reason},
        )
        return actions

    async def _ask(self, messages: Sequence[Mapping[str, Any]]) -> Reply:
        if self._account.turns == 0:
            for message in messages:
                await self._account.message(message)
        started = trio.current_time()
        reply = await self._model.chat(
            ours(messages, self.config.set_cache_control, self._model.protocol),
            tools=[self._tool],
            params=request_params(self.config.model_kwargs, self._model.protocol),
        )
        await self._account.reply(reply, trio.current_time() - started)
        return reply

    def format_message(self, **message: Any) -> dict[str, Any]:
        """Return a message that the agent makes."""
        return message

    def format_observation_messages(
        self,
        message: Mapping[str, Any],
        outputs: Sequence[Mapping[str, Any]],
        template_vars: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return what the model is told of the commands of its message."""
        observations: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=[*map(dict, outputs)],
            observation_template=self.config.observation_template or "",
            template_vars=dict(template_vars or {}),
        )
        for observation in observations:
            # hundreds of them are remembered as long as the attempt lasts
            extra = observation["extra"]
            extra["raw_output"], _ = cut(extra["raw_output"], MAX_RAW_OUTPUT)
        return observations

    def get_template_vars(self, **_: object) -> dict[str, Any]:
        """Return what templates know of the model."""
        return {"model_name": self._model.id, **attrs.asdict(self.config)}

    def serialize(self) -> dict[str, Any]:
        """Return the configuration, for the package's trajectory."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"model": self.get_template_vars(), "model_type": kind}}}
