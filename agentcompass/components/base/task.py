"""A task: what it is, what an agent is told, what it left, what that was worth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.records import JSON, StoppedBy


@frozen(kw_only=True)
class Task:
    """One item of a benchmark. `data` is the benchmark's own and never recorded."""

    id: str
    """Unique within the benchmark; any printable text without `..` segments."""
    category: str | None = None
    metadata: Mapping[str, JSON] = attrs.field(factory=dict)
    data: Any = None
    run_timeout_seconds: float | None = None
    evaluate_timeout_seconds: float | None = None


@frozen(kw_only=True)
class TaskInput:
    """What the agent is told. A harness uses the form it can: messages, or a prompt to continue."""

    messages: tuple[Message, ...]
    """For instruct models and agents; the last one is the user's."""
    statement: str | None = None
    """The bare task, for agents that have an instruction of their own to put around it; None: the messages are that."""
    completion_prompt: str | None = None
    """For base models: the text to continue."""
    completion_stop: tuple[str, ...] = ()
    """Stop sequences that belong to `completion_prompt`."""
    solve: Callable[[], Awaitable[AgentOutcome]] | None = None
    """Applies the reference solution; given to harnesses with `uses_reference` only."""

    @property
    def prompt(self) -> str:
        """The text of the last message."""
        return self.messages[-1].text


@frozen(kw_only=True)
class AgentOutcome:
    """What an agent left: its final answer, and why it stopped if that was early.

    Files count where the benchmark looks at the sandbox; `answer` where it looks at text.
    """

    answer: str | None = None
    stopped_by: StoppedBy | None = None
    """None: it finished by itself."""
    is_completion: bool = False
    """The answer continues `TaskInput.completion_prompt` instead of answering the messages."""
    details: Mapping[str, JSON] = attrs.field(factory=dict)


@frozen(kw_only=True)
class Evaluation:
    """A verdict: a finite value for each metric the benchmark declares (bool counts as 0 or 1)."""

    metrics: Mapping[str, float]
    details: Mapping[str, JSON] = attrs.field(factory=dict)
    files: Mapping[str, bytes] = attrs.field(factory=dict)
    """By file name: what is kept beside the record, such as the log of the tests."""
