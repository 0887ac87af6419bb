"""The harness `mini_swe_agent`, as the engine sees it."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, final

import trio

from agentcompass.components.base import AgentOutcome, Emit, Harness, Model, Session, TaskInput
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.mini_swe_agent import crossing, package
from agentcompass.components.harnesses.mini_swe_agent.account import Account
from agentcompass.components.harnesses.mini_swe_agent.config import (
    PACKAGE,
    SWEBENCH,
    AgentPart,
    Config,
    EnvironmentPart,
    Layers,
    check_name,
    from_mapping,
    is_file,
    read_layers,
)
from agentcompass.components.harnesses.mini_swe_agent.place import look_around
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, InfraError, ModelError, SandboxError
from agentcompass.regular import read_regular
from agentcompass.spec.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat

REHEARSAL_SECONDS: Final = 10.0
"""For rendering all templates once, which takes milliseconds."""

_log: Final = logging.getLogger("agentcompass.mini_swe_agent")


@frozen(kw_only=True)
class MiniSweAgentParams:
    """Parameters of `mini_swe_agent`; those of the generation are the model's."""

    config: str | Mapping[str, Any] = SWEBENCH
    """What the agent is told, and its limits: `swebench` or `mini`, as its package publishes them, `answer` (a task whose answer
    is a text), the path of a file (with a `/` or an ending), or a mapping with the sections of such a file. What a file or
    a mapping does not say is as in `swebench`."""
    step_limit: NonNegativeInt | None = None
    """Calls of the model after which it is stopped; 0 means no limit, null what the configuration says: 250."""
    cost_limit: NonNegativeFloat | None = None
    """US dollars of one attempt after which it is stopped, where the price of the model is known; 0 means no limit, null what the
    configuration says: 3."""
    command_timeout_seconds: PositiveFloat | None = None
    """Longest that one command may take; null means what the configuration says: 60."""


@final
class MiniSweAgent(Harness[MiniSweAgentParams]):
    """The agent of the package `mini-swe-agent`, with a shell in a sandbox."""

    id = "mini_swe_agent"
    Params: ClassVar[type] = MiniSweAgentParams
    extra: ClassVar[str | None] = "mini-swe-agent"
    requires: ClassVar[tuple[str, ...]] = (PACKAGE, "jinja2", "pydantic")
    needs_sandbox = True
    sends: ClassVar[tuple[str, ...]] = ("tools", "tool_choice", "parallel_tool_calls")
    protocols: ClassVar[tuple[str, ...]] = ("openai-chat", "openai-responses", "anthropic")
    run_timeout_seconds = 7200.0
    """What the package gives its own containers (`container_timeout`)."""

    def __init__(self, params: MiniSweAgentParams) -> None:
        super().__init__(params)
        self._package: package.Package | None = None
        self._layers: Layers | None = None
        self._threads = crossing.threads()
        self._has_told_price = False
        self._given = (
            params.config if isinstance(params.config, str) else from_mapping(params.config)
        )
        if isinstance(params.config, str) and is_file(params.config):
            # what stands in the file can change an answer
            self.version = f"{type(self).version}+{_digest(Path(params.config))}"
        elif isinstance(params.config, str):
            check_name(params.config)

    async def preflight(self) -> None:
        """Import the package, read the configuration, and render its templates once.

        Raises:
            ConfigurationError: The configuration is wrong, or a template of it.
            PreflightError: The package is not whole.
        """
        loaded = await trio.to_thread.run_sync(package.load)
        changes = Config(
            agent=AgentPart(step_limit=self.params.step_limit, cost_limit=self.params.cost_limit),
            environment=EnvironmentPart(timeout=self.params.command_timeout_seconds),
        )
        layers = await trio.to_thread.run_sync(read_layers, self._given, changes)
        with trio.move_on_after(REHEARSAL_SECONDS) as limit:
            rehearse = functools.partial(loaded.rehearse, layers.in_sandbox("/"))
            await trio.to_thread.run_sync(rehearse, abandon_on_cancel=True, limiter=self._threads)
        if limit.cancelled_caught:
            raise ConfigurationError(
                f"the templates of the configuration were not rendered within {REHEARSAL_SECONDS:g} s",
                hint="One of them goes on for ever.",
            )
        self._package, self._layers = loaded, layers

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Let the agent work.

        Returns:
            What it submitted. `stopped_by` is `max_turns`, `budget`, `timeout` (its own time limit), `context`, `max_tokens`
            or `format_errors` where it was stopped, then without an answer.

        Raises:
            InfraError: A template failed (code `bad-template`), or the task is not only text (`unsupported-input`).
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed, or has no shell for the agent.
        """
        if session is None:
            raise SandboxError(f"{self.id} needs a sandbox and was given none", retryable=False)
        if self._package is None or self._layers is None:
            raise AssertionError("`preflight` comes first")
        task = _text_of(task_input)
        told = self._layers.in_sandbox(session.workdir)
        place = await look_around(session, told.environment)
        account = Account(emit, functools.partial(self._tell_price, told, model.id))
        drive = self._package.Drive(told, place, session, model, account)
        work = functools.partial(drive.run, task, emit.folder)
        try:
            outcome = await crossing.in_thread(work, self._threads, self.id)
        except ModelError as error:
            if error.code != "context-exceeded":
                raise
            await emit(steps.error_step(error))
            outcome = AgentOutcome(stopped_by="context")
        await emit(steps.final_step(outcome, turns=account.turns, usage=account.usage))
        return outcome

    def _tell_price(self, told: Config, model_id: str) -> None:
        """Say once in a run that the cost limit ends nothing."""
        if told.agent.cost_limit and not self._has_told_price:
            self._has_told_price = True
            _log.warning(
                "the price of model %r is not known: the cost limit of %g US dollars ends no attempt. "
                "Give it under `prices`, or set cost_limit to 0.",
                model_id,
                told.agent.cost_limit,
            )


def _text_of(task_input: TaskInput) -> str:
    """The bare task, or else all that is said, which the agent's own template presents."""
    if task_input.statement is not None:
        return task_input.statement
    contents = [message.content for message in task_input.messages]
    parts = [part for content in contents if not isinstance(content, str) for part in content]
    if any(part.get("type") != "text" for part in parts):
        raise InfraError(
            "the task is not only text, and mini_swe_agent takes nothing else",
            code="unsupported-input",
            retryable=False,
        )
    return "\n\n".join(message.text for message in task_input.messages)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(read_regular(file)).hexdigest()[:12]
    except OSError as error:
        raise ConfigurationError(
            f"the configuration {file} of mini_swe_agent cannot be read: {error.strerror or error}"
        ) from error
