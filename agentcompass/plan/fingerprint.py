"""What makes two runs comparable: everything that can change an answer, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from agentcompass.records import JSON
from agentcompass.secrets import Scrubber, Secret
from agentcompass.spec.resolved import ComponentConfig, Request
from agentcompass.store.request import public_url

ABSENT = "(absent)"
_MAX_SHOWN = 200
"""Characters of a value in a difference."""


def identity(
    request: Request,
    *,
    dataset_version: str,
    component_versions: Mapping[str, str],
    recipes: Sequence[str],
    scrubber: Scrubber | None = None,
) -> dict[str, JSON]:
    """Return everything that can change an answer, as plain JSON.

    Not in it: concurrency, limits, retries, names, the time limits of whole runs and of calls, parameters that only
    select tasks (field metadata `selection`), and secrets, whatever they are called.

    Args:
        request: What is to be run.
        dataset_version: Of the benchmark's data.
        component_versions: Raised by components whenever an answer could change, by role and id.
        recipes: Those that apply, in order.
        scrubber: Removes secret values that stand inside model parameters, such as a header.
    """
    model, execution = request.model, request.execution
    found: dict[str, JSON] = {
        "benchmark": {**_component(request.benchmark), "dataset_version": dataset_version},
        "harness": _component(request.harness),
        "environment": _component(request.environment),
        "model": {
            "id": model.id,
            "base_url": (public_url(model.base_url) or "").rstrip("/"),
            "api_protocol": list(model.api_protocol),
            "params": dict(model.params),
        },
        "recipes": list(recipes),
        "attempts": {
            "k": execution.k,
            "strategy": execution.attempt_strategy,
            "run_timeout_seconds": execution.run_timeout_seconds,
            "evaluate_timeout_seconds": execution.evaluate_timeout_seconds,
            "timeout_multiplier": execution.timeout_multiplier,
        },
        "versions": dict(component_versions),
    }
    if model.local_weights is not None:
        # its URL changes with every start, and says nothing
        found["model"]["weights"] = model.local_weights
    plain: dict[str, JSON] = _plain(found, scrubber or Scrubber())
    return plain


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


def _component(config: ComponentConfig) -> dict[str, JSON]:
    return {"id": config.id, "params": _counting(config.params, config.written)}


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
