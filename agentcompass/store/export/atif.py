"""A trajectory as an ATIF document, version 1.7. Pure.

Source: RFC 0001 of Harbor, the Agent Trajectory Interchange Format. A step there is a message of the system or the user,
or a turn of the agent: what it said, the calls it made, what came of them. Steps are read as tolerantly as they are
written by plug-ins: what is not understood becomes a step of the system that has it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, final

from agentcompass.data import frozen
from agentcompass.records import JSON, ExecutionRecord
from agentcompass.store.codec import to_dict
from agentcompass.store.export.atif_parts import (
    Images,
    calls_of,
    final_metrics,
    metrics_of,
    present,
    text_of,
)

VERSION: Final = "ATIF-v1.7"
LEFT_OUT: Final = "left-out"
"""Type of the step that stands for what could not be read."""
_SOURCES: Final = {"system": "system", "user": "user", "assistant": "agent"}
_TOOL_EXTRAS: Final = ("exit_code", "timed_out", "truncated", "error", "seconds")
_REPLY_EXTRAS: Final = ("turn", "stop_reason", "response_id", "seconds")

Step = Mapping[str, JSON]


@frozen(kw_only=True)
class About:
    """What the documents of a run have in common."""

    run_id: str
    agent: str
    agent_version: str
    model: str | None
    benchmark: str
    agent_params: Mapping[str, JSON]


@frozen(kw_only=True)
class Document:
    """A document, and the images that it names."""

    value: dict[str, Any]
    images: Mapping[str, bytes]
    """By path relative to the document."""


def document(
    record: ExecutionRecord, steps: Iterable[Step], about: About, *, images: str
) -> Document:
    """Return an execution as a document.

    Args:
        record: Of the execution.
        steps: Its trajectory.
        about: The run.
        images: What the paths of its images begin with.
    """
    writer = _Writer(record, about, Images(images))
    for step in steps:
        writer.take(step)
    return writer.document()


@final
class _Writer:
    """Takes steps one by one."""

    def __init__(self, record: ExecutionRecord, about: About, images: Images) -> None:
        self._record, self._about, self._images = record, about, images
        self._id = f"{about.run_id}/{record.task_id}/{record.attempt}/{record.execution}"
        self._began = _time(record.started_at)
        self._steps: list[dict[str, Any]] = []
        self._last_reply: dict[str, Any] | None = None
        self._subagents: list[dict[str, Any]] = []
        self._unreferred: list[str] = []
        """Subagents that no step refers to yet."""
        self._final: dict[str, JSON] = {}
        self._gaps = 0

    def take(self, step: Step) -> None:
        """Take a step."""
        kind = step.get("type")
        writer = {
            "message": self._message,
            "prompt": self._prompt,
            "reply": self._reply,
            "tool": self._tool,
            "summary": self._summary,
            "handoff": self._handoff,
            "elided": self._elided,
            "error": self._error,
            "final": self._end,
        }.get(kind if isinstance(kind, str) else "", self._other)
        writer(step)

    def document(self) -> Document:
        """Return all of it."""
        if self._unreferred:
            self._add(
                "system", "A hand-over of the conversation was begun.", {}, self._referred(None)
            )
        record, about = self._record, self._about
        notes = f"{self._gaps} steps of this trajectory are lost." if self._gaps else None
        value = present(
            schema_version=VERSION,
            session_id=about.run_id,
            trajectory_id=self._id,
            agent=self._agent({"params": dict(about.agent_params)}),
            steps=self._steps,
            notes=notes,
            final_metrics=final_metrics(self._steps, record.usage),
            subagent_trajectories=self._subagents or None,
            extra={
                "benchmark": about.benchmark,
                "task_id": record.task_id,
                "attempt": record.attempt,
                "execution": record.execution,
                "verdict": record.verdict,
                "metrics": record.metrics,
                "failure": None if record.failure is None else to_dict(record.failure),
                "stopped_by": record.stopped_by,
                "answer": record.answer,
            },
        )
        return Document(value=value, images=self._images.files)

    # --- steps by type

    def _message(self, step: Step) -> None:
        role = str(step.get("role", ""))
        source = _SOURCES.get(role, "user")
        copied = {"is_copied_context": True} if source == "agent" else {}
        extra = {} if role in _SOURCES else {"role": role}
        self._add(source, self._images.message(step.get("content")), step, copied, extra=extra)

    def _prompt(self, step: Step) -> None:
        stop = step.get("stop")
        extra = {"stop": stop} if stop else {}
        self._add("user", self._images.message(step.get("content")), step, extra=extra)

    def _reply(self, step: Step) -> None:
        calls = calls_of(step.get("tool_calls"))
        fields = present(
            model_name=text_of(step.get("model")),
            reasoning_content=text_of(step.get("reasoning")),
            tool_calls=calls or None,
            metrics=metrics_of(step.get("usage")),
            llm_call_count=1,
        )
        said = self._images.message(step.get("content"))
        self._last_reply = self._add("agent", said, step, fields, extra=_some(step, _REPLY_EXTRAS))

    def _tool(self, step: Step) -> None:
        result = present(
            content=self._images.message(step.get("output")),
            extra=_some(step, _TOOL_EXTRAS) or None,
        )
        reply = self._last_reply
        if reply is None:
            self._add(
                "system",
                f"Output of {step.get('name')}",
                step,
                {"observation": {"results": [result]}},
            )
            return
        ids = [call["tool_call_id"] for call in reply.get("tool_calls", ())]
        if step.get("tool_call_id") in ids:
            result = {"source_call_id": step["tool_call_id"], **result}
        reply.setdefault("observation", {"results": []})["results"].append(result)

    def _summary(self, step: Step) -> None:
        """One of those who write a hand-over: a trajectory of its own, embedded."""
        part = str(step.get("part", "summary"))
        writer = _Writer(self._record, self._about, self._images)
        writer._add("user", self._images.message(step.get("prompt")), step)
        if "error" in step:
            writer._error({**step, "code": step["error"]})
        else:
            writer._reply(step)
        name = f"{self._id}/handoff-{step.get('number')}-{part}-{len(self._subagents) + 1}"
        earlier = step.get("messages")
        notes = None
        if isinstance(earlier, int) and earlier > 1:
            notes = f"It was told the {earlier - 1} messages before as well, which the steps of the parent have."
        value = present(
            schema_version=VERSION,
            session_id=self._about.run_id,
            trajectory_id=name,
            agent=self._agent({"part": part}),
            steps=writer._steps,
            notes=notes,
            final_metrics=final_metrics(writer._steps, None),
        )
        self._subagents.append(value)
        self._unreferred.append(name)

    def _handoff(self, step: Step) -> None:
        messages = step.get("messages")
        told = [
            f"[{one.get('role')}]\n{_flat(self._images.message(one.get('content')))}"
            for one in (messages if isinstance(messages, list) else ())
            if isinstance(one, Mapping)
        ]
        management = {"type": "compaction", "boundary": "replace"}
        self._add(
            "system",
            f"The conversation was handed over ({step.get('reason')}).",
            step,
            self._referred("\n\n".join(told)),
            extra={"context_management": management},
        )
        self._last_reply = None

    def _elided(self, step: Step) -> None:
        management = {"type": "pruning", "boundary": "truncate"}
        text = f"{step.get('outputs')} outputs of tools were left out of the conversation."
        self._add("system", text, step, extra={"context_management": management})

    def _error(self, step: Step) -> None:
        extra = {"error": str(step.get("code"))}
        self._add("system", f"A model call failed: {step.get('message')}", step, extra=extra)

    def _end(self, step: Step) -> None:
        """How it ended is in the record, too."""

    def _other(self, step: Step) -> None:
        kind = step.get("type")
        if kind == "lost-steps":
            count = step.get("steps")
            self._gaps += count if isinstance(count, int) else 1
        self._gaps += kind == LEFT_OUT
        rest = {key: value for key, value in step.items() if key != "at_seconds"}
        self._add("system", f"({kind})", step, extra={"step": rest})

    # --- below

    def _agent(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        about = self._about
        return present(
            name=about.agent,
            version=about.agent_version,
            model_name=about.model,
            extra=dict(extra),
        )

    def _add(
        self,
        source: str,
        message: JSON,
        step: Step,
        fields: Mapping[str, Any] | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        made = present(
            step_id=len(self._steps) + 1,
            timestamp=self._at(step),
            source=source,
            message=message,
            **(fields or {}),
            extra=dict(extra) if extra else None,
        )
        self._steps.append(made)
        return made

    def _at(self, step: Step) -> str | None:
        seconds = step.get("at_seconds")
        if self._began is None or not isinstance(seconds, int | float) or isinstance(seconds, bool):
            return None
        try:
            return (self._began + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
        except (OverflowError, ValueError):
            return None

    def _referred(self, content: str | None) -> dict[str, Any]:
        """An observation that refers to the subagents since the last one."""
        references = [{"trajectory_id": name} for name in self._unreferred]
        self._unreferred = []
        result = present(content=content, subagent_trajectory_ref=references or None)
        return {"observation": {"results": [result]}}


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _some(step: Step, names: Iterable[str]) -> dict[str, Any]:
    """The fields of a step that say something."""
    return {
        name: step[name] for name in names if step.get(name) is not None and step[name] is not False
    }


def _flat(message: JSON) -> str:
    if isinstance(message, str):
        return message
    return "".join(str(part.get("text", "(image)")) for part in message)
