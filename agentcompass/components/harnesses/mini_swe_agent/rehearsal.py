"""Rendering every template of a configuration once, before anything costs, with what it may meet.

Imports the package, as `driver` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

from jinja2 import StrictUndefined, Template
from minisweagent.exceptions import FormatError

from agentcompass.components.base import Emit, Model, Session
from agentcompass.components.harnesses.mini_swe_agent.account import Account
from agentcompass.components.harnesses.mini_swe_agent.config import Config
from agentcompass.components.harnesses.mini_swe_agent.driver import new_agent
from agentcompass.components.harnesses.mini_swe_agent.endpoint import Endpoint
from agentcompass.components.harnesses.mini_swe_agent.place import UNAME, place_of
from agentcompass.components.harnesses.mini_swe_agent.sandbox import Sandbox
from agentcompass.components.messages import Message, Reply, StopReason, ToolCall
from agentcompass.errors import ConfigurationError, describe
from agentcompass.records import Usage

_OUTPUTS: Final = (
    {"output": "", "returncode": 0, "exception_info": ""},
    {"output": "line\n" * 10_000, "returncode": 1, "exception_info": ""},
    {"output": "so far", "returncode": -1, "exception_info": "It took too long."},
)
_ACTION: Final = {"command": "true", "tool_call_id": "call"}
_MISTAKES: Final[tuple[tuple[StopReason, tuple[ToolCall, ...]], ...]] = (
    ("stop", ()),
    ("length", ()),
    ("tool_calls", (ToolCall(id="call", name="unknown", arguments="{"),)),
)


def rehearse(config: Config) -> None:
    """Render the templates. In a worker thread: a template may go on for ever.

    Raises:
        ConfigurationError: One fails; the message names it.
    """
    for name, render in _templates(config):
        try:
            render()
        except FormatError:
            continue  # it carries what was rendered
        except Exception as error:  # a template can do whatever an expression can
            raise ConfigurationError(
                f"{name} of the configuration of mini_swe_agent fails: {describe(error)}",
                hint="It is a template of Jinja, with the variables of mini-swe-agent's own configurations.",
            ) from error


def _templates(config: Config) -> Iterator[tuple[str, Callable[[], object]]]:
    nobody = cast("Any", None)
    model = cast("Model", SimpleNamespace(id="model"))
    account = Account(cast("Emit", nobody), lambda: None)
    endpoint = Endpoint(config.model, model, account)
    place = place_of(config.environment, workdir="/", system=dict.fromkeys(UNAME, ""))
    agent = new_agent(config, endpoint, Sandbox(place, cast("Session", nobody), account))
    variables = agent.get_template_vars(task="Do it.")
    for name in ("system_template", "instance_template"):
        template = getattr(agent.config, name)
        yield name, partial(_render, template, variables)
    for output in _OUTPUTS:
        message = {"extra": {"actions": [_ACTION]}}
        render = partial(endpoint.format_observation_messages, message, [output], variables)
        yield "observation_template", render
    for reason, calls in _MISTAKES:
        said = Message(role="assistant", tool_calls=calls)
        reply = Reply(message=said, stop_reason=reason, usage=Usage())
        yield "format_error_template", partial(endpoint.actions_of, reply)


def _render(template: str, variables: Mapping[str, Any]) -> str:
    """As the agent does it."""
    text: str = Template(template, undefined=StrictUndefined).render(**variables)
    return text
