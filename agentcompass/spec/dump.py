"""What was resolved, as plain JSON: for `run.json` and `--dry-run`. Secrets are references, or masked.

The result is itself an orchestration file: resolving it again gives the same orchestration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentcompass.records import JSON
from agentcompass.secrets import MASK, Scrubber, Secret
from agentcompass.spec.codec import as_json
from agentcompass.spec.references import escape, without_userinfo
from agentcompass.spec.resolved import ComponentConfig, ModelConfig, Orchestration, Request
from agentcompass.spec.tree import Written
from agentcompass.spec.written import SUPPORTED_VERSION


def as_written(value: object, node: Written | None, secrets: Iterable[Secret]) -> JSON:
    """Return a resolved value as one may write it down.

    Args:
        value: Resolved.
        node: What it was resolved from; its secret leaves are written as references, or masked if they had none.
        secrets: Values that are masked wherever else they occur.
    """
    scrubber = Scrubber()
    scrubber.register(*secrets)
    return _hide(as_json(value), node, scrubber)


def _hide(value: JSON, node: Written | None, scrubber: Scrubber) -> JSON:
    if node is not None and node.is_secret and value is not None:
        return node.reference or MASK
    if isinstance(value, dict):
        return {
            scrubber.scrub(key): _hide(item, node.get(key) if node else None, scrubber)
            for key, item in value.items()
        }
    if isinstance(value, list):
        below = node.data if node and isinstance(node.data, tuple) else ()
        nodes = below if len(below) == len(value) else (None,) * len(value)
        return [_hide(*pair, scrubber) for pair in zip(value, nodes, strict=True)]
    if isinstance(value, str):
        return escape(scrubber.scrub(without_userinfo(value)))
    return value


def resolved_as_dict(orchestration: Orchestration) -> dict[str, JSON]:
    """Return an orchestration as it would be written in full, keys of our own under `x-`."""
    runtime = as_written(orchestration.runtime, None, orchestration.secrets)
    task_concurrency = runtime.pop("task_concurrency")
    own = {
        "x-id": orchestration.id,
        "x-prices": as_json(orchestration.prices),
        "x-notes": [_scrubbed(note, orchestration.secrets) for note in orchestration.notes],
    }
    return {
        "version": SUPPORTED_VERSION,
        "name": _scrubbed(orchestration.name, orchestration.secrets),
        **{key: value for key, value in own.items() if value},
        "task_concurrency": task_concurrency,
        "runtime": _given(runtime),
        "requests": [request_as_dict(each, orchestration) for each in orchestration.requests],
    }


def request_as_dict(request: Request, orchestration: Orchestration) -> dict[str, JSON]:
    """Return one request as it would be written in full."""
    output = {"run_name": request.run_name}
    if request.run_id_is_given:
        output["run_id"] = request.run_id
    sections: dict[str, Any] = {
        "benchmark": _component(request.benchmark),
        "harness": _component(request.harness),
        "environment": _component(request.environment),
        "model": _model(request.model, orchestration.secrets),
        "execution": _given(as_written(request.execution, None, orchestration.secrets)),
        "runtime": _given({"reuse": request.reuse, "reuse_run_id": request.reuse_run_id}),
        "output": _given(as_written(output, None, orchestration.secrets)),
    }
    return {
        "name": _scrubbed(request.name, orchestration.secrets),
        **{key: value for key, value in sections.items() if value},
        "weight": request.weight,
    }


def _component(config: ComponentConfig) -> dict[str, JSON]:
    return {"id": config.id, **_given(config.written)}


def _model(config: ModelConfig, secrets: tuple[Secret, ...]) -> dict[str, JSON]:
    limits = {
        "max_retries": config.max_retries,
        "timeout_seconds": config.timeout_seconds,
        "max_connections": config.max_connections,
    }
    section: dict[str, JSON] = {
        "id": as_written(config.id, None, secrets),
        "base_url": as_written(config.base_url, None, secrets),
        "api_key": config.api_key.written if config.api_key else None,
        "api_protocol": list(config.api_protocol),
        "params": {**config.written, **limits},
    }
    return _given(section)


def _given(section: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in section.items() if value is not None}


def _scrubbed(text: str, secrets: tuple[Secret, ...]) -> JSON:
    return as_written(text, None, secrets)
