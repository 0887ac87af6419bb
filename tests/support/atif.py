"""The rules of ATIF 1.7, from RFC 0001 of Harbor, as a checker of our own: every fault of a document, with its place."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

SOURCES = {"system", "user", "agent"}
MEDIA_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
TEXT, COUNT, NUMBER, OBJECT, LIST, CONTENT = "text", "count", "number", "object", "list", "content"

TRAJECTORY = (
    {"schema_version": TEXT, "agent": OBJECT, "steps": LIST},
    {
        "session_id": TEXT, "trajectory_id": TEXT, "notes": TEXT, "final_metrics": OBJECT,
        "continued_trajectory_ref": TEXT, "extra": OBJECT, "subagent_trajectories": LIST,
    },
)  # fmt: skip
AGENT = (
    {"name": TEXT, "version": TEXT},
    {"model_name": TEXT, "tool_definitions": LIST, "extra": OBJECT},
)
FINAL_METRICS = (
    {},
    {
        "total_prompt_tokens": COUNT, "total_completion_tokens": COUNT, "total_cached_tokens": COUNT,
        "total_cost_usd": NUMBER, "total_steps": COUNT, "extra": OBJECT,
    },
)  # fmt: skip
AGENT_ONLY = {
    "model_name": TEXT, "reasoning_effort": TEXT, "reasoning_content": TEXT, "tool_calls": LIST, "metrics": OBJECT,
}  # fmt: skip
STEP = (
    {"step_id": COUNT, "source": TEXT, "message": CONTENT},
    {
        **AGENT_ONLY, "timestamp": TEXT, "observation": OBJECT, "extra": OBJECT, "llm_call_count": COUNT,
        "is_copied_context": "flag",
    },
)  # fmt: skip
CALL = ({"tool_call_id": TEXT, "function_name": TEXT, "arguments": OBJECT}, {"extra": OBJECT})
METRICS = (
    {},
    {
        "prompt_tokens": COUNT, "completion_tokens": COUNT, "cached_tokens": COUNT, "cost_usd": NUMBER,
        "prompt_token_ids": LIST, "completion_token_ids": LIST, "logprobs": LIST, "extra": OBJECT,
    },
)  # fmt: skip
OBSERVATION = ({"results": LIST}, {})
RESULT = (
    {},
    {"source_call_id": TEXT, "content": CONTENT, "subagent_trajectory_ref": LIST, "extra": OBJECT},
)
REFERENCE = (
    {},
    {"trajectory_id": TEXT, "trajectory_path": TEXT, "session_id": TEXT, "extra": OBJECT},
)


def faults(document, folder: Path | None = None) -> list[str]:
    """What is wrong with a document; `folder` is where its images are, if that is to be looked at."""
    found: list[str] = []
    _trajectory(document, "$", found, folder)
    return found


def _is(kind, value):
    return {
        TEXT: isinstance(value, str),
        COUNT: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        NUMBER: isinstance(value, int | float) and not isinstance(value, bool),
        OBJECT: isinstance(value, dict),
        LIST: isinstance(value, list),
        CONTENT: isinstance(value, str | list),
        "flag": isinstance(value, bool),
    }[kind]


def _fields(value, form, place, found):
    if not isinstance(value, dict):
        found.append(f"{place} is no object")
        return False
    required, optional = form
    found += [f"{place}.{name} is missing" for name in required if name not in value]
    for name, item in value.items():
        kind = required.get(name) or optional.get(name)
        if kind is None:
            found.append(f"{place}.{name} is unknown")
        elif not _is(kind, item):
            found.append(f"{place}.{name} is no {kind}")
    return True


def _trajectory(value, place, found, folder):
    if not _fields(value, TRAJECTORY, place, found):
        return
    if not re.fullmatch(r"ATIF-v1\.[0-7]", value.get("schema_version", "")):
        found.append(f"{place}.schema_version is unknown")
    _fields(value.get("agent"), AGENT, f"{place}.agent", found)
    subagents = value.get("subagent_trajectories", [])
    ids = [one.get("trajectory_id") for one in subagents]
    if None in ids or len(set(ids)) != len(ids):
        found.append(f"{place}.subagent_trajectories have no ids of their own")
    for number, step in enumerate(value.get("steps", []), 1):
        _step(step, number, ids, f"{place}.steps[{number - 1}]", found, folder)
    if not value.get("steps"):
        found.append(f"{place}.steps is empty")
    if "final_metrics" in value:
        _totals(value, f"{place}.final_metrics", found)
    for number, one in enumerate(subagents):
        _trajectory(one, f"{place}.subagent_trajectories[{number}]", found, folder)


def _totals(value, place, found):
    totals = value["final_metrics"]
    _fields(totals, FINAL_METRICS, place, found)
    metered = [step["metrics"] for step in value["steps"] if "metrics" in step]
    for total, one in (
        ("total_prompt_tokens", "prompt_tokens"),
        ("total_completion_tokens", "completion_tokens"),
        ("total_cached_tokens", "cached_tokens"),
    ):
        if total in totals and totals[total] != sum(metrics.get(one, 0) for metrics in metered):
            found.append(f"{place}.{total} is no sum")
    if totals.get("total_steps", len(value["steps"])) != len(value["steps"]):
        found.append(f"{place}.total_steps is wrong")


def _step(step, number, subagents, place, found, folder):
    if not _fields(step, STEP, place, found):
        return
    if step.get("step_id") != number:
        found.append(f"{place}.step_id is not {number}")
    if step.get("source") not in SOURCES:
        found.append(f"{place}.source is unknown")
    if step.get("source") != "agent":
        found += [f"{place}.{name} belongs to agents" for name in AGENT_ONLY if name in step]
    if step.get("llm_call_count") == 0 and {"metrics", "reasoning_content"} & step.keys():
        found.append(f"{place} has metrics without a call")
    if "timestamp" in step:
        try:
            datetime.fromisoformat(step["timestamp"])
        except ValueError:
            found.append(f"{place}.timestamp is none")
    _content(step.get("message"), f"{place}.message", found, folder)
    if "metrics" in step:
        _fields(step["metrics"], METRICS, f"{place}.metrics", found)
    ids = [call.get("tool_call_id") for call in step.get("tool_calls", [])]
    if len(set(ids)) != len(ids):
        found.append(f"{place}.tool_calls share an id")
    for at, call in enumerate(step.get("tool_calls", [])):
        _fields(call, CALL, f"{place}.tool_calls[{at}]", found)
    if "observation" in step and _fields(step["observation"], OBSERVATION, place, found):
        for at, result in enumerate(step["observation"]["results"]):
            _result(result, ids, subagents, f"{place}.results[{at}]", found, folder)


def _result(result, calls, subagents, place, found, folder):
    if not _fields(result, RESULT, place, found):
        return
    if "source_call_id" in result and result["source_call_id"] not in calls:
        found.append(f"{place}.source_call_id is of no call of this step")
    _content(result.get("content", ""), f"{place}.content", found, folder)
    for reference in result.get("subagent_trajectory_ref", []):
        _fields(reference, REFERENCE, place, found)
        if "trajectory_path" not in reference and reference.get("trajectory_id") not in subagents:
            found.append(f"{place} refers to no trajectory")


def _content(content, place, found, folder):
    if isinstance(content, str):
        return
    for part in content or []:
        keys = {"text": {"type", "text"}, "image": {"type", "source"}}.get(part.get("type"))
        if keys != part.keys():
            found.append(f"{place} has a part that is neither text nor image")
        elif part["type"] == "image":
            source = part["source"]
            if source.keys() != {"media_type", "path"} or source["media_type"] not in MEDIA_TYPES:
                found.append(f"{place} has an image without a place")
            elif folder and ":" not in source["path"] and not (folder / source["path"]).is_file():
                found.append(f"{place} names an image that is not there")
