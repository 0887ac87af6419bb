"""Between data classes and JSON objects: fields of a newer minor version are ignored, newer schemas refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar, get_args

import attrs

from agentcompass.records import (
    JSON,
    SCHEMA_VERSION,
    ExecutionRecord,
    Failure,
    Lease,
    Phase,
    ProcessIdentity,
    Usage,
    Verdict,
)
from agentcompass.store import jsonl

T = TypeVar("T")

_VERDICTS: Final = frozenset(get_args(Verdict))
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
_PHASES: Final = frozenset(get_args(Phase))


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
        ValueError: A field is missing, or the object has a newer schema.
    """
    written = mapping(data, cls.__name__)
    schema = written.get("schema", SCHEMA_VERSION)
    if not isinstance(schema, int) or schema > SCHEMA_VERSION:
        raise ValueError(
            f"schema {schema!r:.20} is newer than {SCHEMA_VERSION}: use a newer agentcompass"
        )
    known = {name: written[name] for name in _names(cls) if name in written}
    try:
        return cls(**{**known, **fields})
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
    try:
        _check(data)
    except ValueError as error:
        raise jsonl.NotJSONError("$", str(error)) from None
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
    written = mapping(data, "the line")
    _check(written)
    failure = written["failure"]
    return build(
        ExecutionRecord,
        written,
        metrics=_finite(written["metrics"]),
        failure=None if failure is None else build(Failure, failure),
        usage=build(Usage, written.get("usage", {})),
    )


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


def _check(data: Mapping[str, JSON]) -> None:
    """Check what scores depend on. ValueError with the first thing that is wrong."""
    if not isinstance(data.get("task_id"), str):
        raise ValueError("task_id is not a text")  # noqa: TRY004  # bad data, not a bad call
    for name in ("attempt", "execution"):
        number = data.get(name)
        if type(number) is not int or number < 1:
            raise ValueError(f"{name} {number!r:.40} is not a whole number from 1")
    verdict = data.get("verdict")
    if verdict not in _VERDICTS:
        raise ValueError(f"verdict {verdict!r:.40} is unknown")
    if (data.get("metrics") is not None) != (verdict == "graded"):
        raise ValueError("metrics belong to a graded record, and only there")
    failure = data.get("failure")
    if (failure is not None) != (verdict != "graded"):
        raise ValueError("a failure belongs to a record that is not graded, and only there")
    if failure is not None and mapping(failure, "failure").get("phase") not in _PHASES:
        raise ValueError("the failure's phase is unknown")
