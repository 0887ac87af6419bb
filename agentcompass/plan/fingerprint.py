"""What makes two runs comparable: everything that can change an answer, and its hash.

What was given by reference counts with its value, but is written down as the reference with a few digits of the
value's hash. Secrets do not count at all, whatever they are called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.secrets import Scrubber, Secret
from agentcompass.spec.credentials import without_userinfo
from agentcompass.spec.dump import Form, written_model
from agentcompass.spec.resolved import ComponentConfig, Request

ABSENT = "(absent)"
_MAX_SHOWN = 200
"""Characters of a value in a difference."""
_DIGITS = 12
"""Hexadecimal digits of the hash that stands for a value given by reference."""


@frozen(kw_only=True)
class Identity:
    """Everything that can change an answer."""

    fingerprint: str
    """SHA-256 over all of it: two runs with one fingerprint can share attempts."""
    written: Mapping[str, JSON]
    """The same as one may write it down: references with a hash in the place of their values."""


def identity(
    request: Request,
    *,
    dataset_version: str,
    component_versions: Mapping[str, str],
    recipes: Sequence[str],
    scrubber: Scrubber | None = None,
) -> Identity:
    """Return everything that can change an answer.

    Not in it: concurrency, limits, retries, names, the time limits of whole runs and of calls, parameters that only
    select tasks (field metadata `selection`), and secrets, whatever they are called.

    Args:
        request: What is to be run.
        dataset_version: Of the benchmark's data.
        component_versions: Raised by components whenever an answer could change, by role and id.
        recipes: Those that apply, in order.
        scrubber: Removes secret values that stand inside model parameters, such as a header.
    """
    execution = request.execution
    shared: dict[str, JSON] = {
        "recipes": list(recipes),
        "attempts": {
            "k": execution.k,
            "strategy": execution.attempt_strategy,
            "run_timeout_seconds": execution.run_timeout_seconds,
            "evaluate_timeout_seconds": execution.evaluate_timeout_seconds,
            "timeout_multiplier": execution.timeout_multiplier,
            **_set(
                attempt_max_cost=execution.attempt_max_cost,
                attempt_max_tokens=execution.attempt_max_tokens,
            ),
        },
        "versions": dict(component_versions),
    }
    stored, counted = (
        _plain({**_chosen(request, dataset_version, form), **shared}, scrubber or Scrubber())
        for form in _FORMS
    )
    return Identity(fingerprint=fingerprint(counted), written=_with_hashes(stored, counted))


def _set(**settings: JSON) -> dict[str, JSON]:
    """Those that are set: what is not leaves older runs reusable."""
    return {name: value for name, value in settings.items() if value is not None}


_FORMS: tuple[Form, Form] = ("stored", "counted")


def _chosen(request: Request, dataset_version: str, form: Form) -> dict[str, JSON]:
    """The parts of a request in which references may stand."""
    model, written = request.model, written_model(request.model, form)
    endpoint = {
        "id": model.id,
        "base_url": without_userinfo(written["base_url"] or "").rstrip("/"),
        "api_protocol": list(model.api_protocol),
        "params": written["params"],
    }
    if model.served_version is not None:
        # its URL changes with every start, and says nothing
        endpoint["version"] = model.served_version
    return {
        "benchmark": {**_component(request.benchmark, form), "dataset_version": dataset_version},
        "harness": _component(request.harness, form),
        "environment": _component(request.environment, form),
        "model": endpoint,
    }


def _with_hashes(stored: JSON, counted: JSON) -> Any:
    """What is stored, with a hash of what counts wherever that is something else."""
    if isinstance(stored, Mapping) and isinstance(counted, Mapping):
        return {key: _with_hashes(item, counted.get(key)) for key, item in stored.items()}
    if isinstance(stored, list) and isinstance(counted, list) and len(stored) == len(counted):
        return [_with_hashes(*pair) for pair in zip(stored, counted, strict=True)]
    if stored == counted:
        return stored
    digest = hashlib.sha256(_canonical(counted).encode()).hexdigest()[:_DIGITS]
    return f"{stored} (sha256 {digest})"


def fingerprint(identity: Mapping[str, JSON]) -> str:
    """Return the SHA-256 of an identity as canonical JSON: 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(identity).encode()).hexdigest()


def differences(a: JSON, b: JSON) -> list[str]:
    """Return what differs between two identities, a line each: `model.params.temperature: 0 -> 1`."""
    return list(_differences(a, b, ""))


def _differences(a: JSON, b: JSON, path: str) -> Iterator[str]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted({*a, *b}):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(a.get(key, ABSENT), b.get(key, ABSENT), below)
    elif _canonical(a) != _canonical(b):
        yield f"{path}: {_shown(a)} -> {_shown(b)}"


def _shown(value: JSON) -> str:
    text = value if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _canonical(value: JSON) -> str:
    plain = _plain(value, Scrubber())
    return json.dumps(plain, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _plain(value: JSON, scrubber: Scrubber) -> Any:
    """The value in built-in types; 0.0 and 0, which mean the same to whoever wrote them, alike."""
    if isinstance(value, str):
        return scrubber.scrub(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, scrubber) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, scrubber) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _component(config: ComponentConfig, form: Form) -> dict[str, JSON]:
    counted = config.written if config.counted is None else config.counted
    written = config.written if form == "stored" else counted
    return {"id": config.id, "params": _counting(config.params, written)}


def _counting(params: Any, written: JSON) -> JSON:
    """Written parameters without those that choose tasks, are secret, or are not set.

    Leaving out what is not set keeps old runs reusable when a component gets a new optional parameter.
    """
    if not isinstance(written, Mapping):
        return written
    if attrs.has(type(params)):
        skipped = {
            field.name for field in attrs.fields(type(params)) if field.metadata.get("selection")
        }
        values = {field.name: getattr(params, field.name) for field in attrs.fields(type(params))}
    else:
        skipped = set()
        values = dict(params) if isinstance(params, Mapping) else {}
    return {
        name: _counting(values.get(name), item)
        for name, item in written.items()
        if item is not None and name not in skipped and not isinstance(values.get(name), Secret)
    }
