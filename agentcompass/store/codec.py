"""Between data classes and JSON objects: fields of a newer minor version are ignored, newer schemas refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import attrs

from agentcompass.records import (
    JSON,
    SCHEMA_VERSION,
    ExecutionRecord,
    Failure,
    Lease,
    ProcessIdentity,
    Usage,
)
from agentcompass.store import jsonl, shape

T = TypeVar("T")

LARGEST: Final = 1e100
"""Seconds and dollars of one execution: those of any number of executions can be added up."""

_NAMES: Final[dict[type, tuple[str, ...]]] = {}


def _names(cls: Any) -> tuple[str, ...]:
    names = _NAMES.get(cls)
    if names is None:
        names = _NAMES[cls] = tuple(field.name for field in attrs.fields(cls))
    return names


def to_dict(instance: Any) -> dict[str, Any]:
    """Return the fields of an attrs object, one level deep."""
    return {name: getattr(instance, name) for name in _names(type(instance))}


def mapping(data: JSON, what: str) -> Mapping[str, JSON]:
    """Return `data` if it is a JSON object; else ValueError."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{what} is not an object")  # noqa: TRY004  # bad data, not a bad call
    return data


def build(cls: type[T], data: JSON, **fields: Any) -> T:
    """Make an attrs object from a JSON object.

    Args:
        cls: Its class.
        data: Its fields; those that `cls` does not have are ignored.
        **fields: Fields that are already converted.

    Raises:
        ValueError: A field is missing or of another type than `cls` says, or the object has a newer schema.
    """
    return _made(cls, _checked(cls, data, **fields))


def _checked(cls: type, data: JSON, **fields: Any) -> dict[str, Any]:
    written = mapping(data, cls.__name__)
    schema = written.get("schema", SCHEMA_VERSION)
    if not isinstance(schema, int) or schema > SCHEMA_VERSION:
        raise ValueError(
            f"schema {schema!r:.20} is newer than {SCHEMA_VERSION}: use a newer agentcompass"
        )
    complete = {**written, **fields}
    if (wrong := shape.problem(cls, complete)) is not None:
        raise ValueError(wrong)
    return complete


def _made(cls: type[T], data: Mapping[str, Any]) -> T:
    """Do the same with fields that have been checked."""
    try:
        return cls(**{name: data[name] for name in _names(cls) if name in data})
    except TypeError as error:
        raise ValueError(str(error).replace("__init__() ", "")) from None


def encode_record(record: ExecutionRecord, scrub: jsonl.Scrub) -> bytes:
    """Return a record as a line of the journal.

    Secrets are removed from what agents, components and evaluators said; ids, verdict and numbers stay, since a key
    that happens to be a word of ours must not make the record unreadable.

    Raises:
        NotJSONError: It could not be read back as it is.
    """
    data = to_dict(record)
    data["metrics"] = _finite(record.metrics)
    data["failure"] = None if record.failure is None else to_dict(record.failure)
    data["usage"] = to_dict(record.usage)
    data["judge_usage"] = to_dict(record.judge_usage)
    if (wrong := shape.problem(ExecutionRecord, data) or _nonsense(record)) is not None:
        raise jsonl.NotJSONError("$", wrong)
    text = jsonl.dumps(data)
    if scrub(text) != text:
        for name in ("answer", "details", "stopped_by"):
            data[name] = jsonl.plain(data[name], scrub)
        if record.failure is not None:
            data["failure"] |= {"message": scrub(record.failure.message)}
        text = jsonl.dumps(data)
    return jsonl.to_line(text)


def decode_record(data: JSON) -> ExecutionRecord:
    """Return the record of a line of the journal.

    Raises:
        ValueError: It is not one, or of a newer schema.
    """
    fields = _checked(ExecutionRecord, data)
    failure = fields.get("failure")
    fields["metrics"] = _finite(fields.get("metrics"))
    fields["failure"] = None if failure is None else _made(Failure, failure)
    for name in ("usage", "judge_usage"):
        fields[name] = _made(Usage, fields.get(name, {}))
    steps_at = fields.get("steps_at")
    fields["steps_at"] = None if steps_at is None else tuple(steps_at)
    record = _made(ExecutionRecord, fields)
    if (wrong := _nonsense(record)) is not None:
        raise ValueError(wrong)
    return record


def decode_lease(data: JSON) -> Lease:
    """Return the lease in a file of `leases/`; ValueError if it is not one."""
    owner = build(ProcessIdentity, mapping(data, "the lease").get("owner"))
    return build(Lease, data, owner=owner)


def encode_lease(lease: Lease) -> bytes:
    """Return what is written to a file of `leases/`."""
    return jsonl.encode(to_dict(lease) | {"owner": to_dict(lease.owner)})


def _finite(metrics: Mapping[str, float] | None) -> dict[str, float] | None:
    if metrics is None:
        return None
    for name, value in mapping(metrics, "metrics").items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise jsonl.NotJSONError(f"$.metrics.{name}", f"{value!r:.80} is not a finite number")
    return {name: float(value) for name, value in metrics.items()}


def _nonsense(record: ExecutionRecord) -> str | None:
    """Say what is wrong with a record whose fields are each of their type: with what scores depend on."""
    if record.attempt < 1 or record.execution < 1:
        return "attempts and executions are counted from 1"
    if (record.metrics is not None) != (record.verdict == "graded"):
        return "metrics belong to a graded record, and only there"
    if (record.failure is not None) != (record.verdict != "graded"):
        return "a failure belongs to a record that is not graded, and only there"
    costs = (usage.cost_usd or 0.0 for usage in (record.usage, record.judge_usage))
    if max(map(abs, (record.wall_seconds, *costs))) > LARGEST:
        return "wall_seconds or cost_usd is too large to be added up"
    return None
