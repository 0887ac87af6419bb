"""A request as plain JSON for `run.json`, and the command that runs it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import attrs

from agentcompass.records import JSON
from agentcompass.spec.resolved import ComponentConfig, Request
from agentcompass.store.info import RunInfo


def written_request(request: Request) -> dict[str, JSON]:
    """Return a request as it may be stored: secrets as references, no credentials in URLs."""
    model = request.model
    return {
        "name": request.name,
        "benchmark": _component(request.benchmark),
        "harness": _component(request.harness),
        "environment": _component(request.environment),
        "model": {
            "id": model.id,
            "base_url": public_url(model.base_url),
            "api_key": None if model.api_key is None else model.api_key.written,
            "api_protocol": list(model.api_protocol),
            "params": dict(model.params),
            "max_retries": model.max_retries,
            "timeout_seconds": model.timeout_seconds,
            "max_connections": model.max_connections,
        },
        "execution": attrs.asdict(request.execution),
        "run_name": request.run_name,
        "run_id": request.run_id,
        "reuse": request.reuse,
        "reuse_run_id": request.reuse_run_id,
        "weight": request.weight,
    }


def _component(config: ComponentConfig) -> dict[str, JSON]:
    return {"id": config.id, "params": dict(config.written)}


def public_url(url: str | None) -> str | None:
    """Return a URL without user name and password; text that is no URL as it is."""
    if url is None or "@" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def finish_command(info: RunInfo, run_dir: Path) -> str:
    """Return the shell command that executes what a run is missing and reuses what it has.

    Secrets are not in it: a key that was given as a reference stays one, any other has to be given again.

    Args:
        info: The run; its `request` as `written_request` gives it.
        run_dir: Where it stands, from which the results directory follows.
    """
    request = info.request
    parts = {name: request.get(name) or {} for name in ("benchmark", "harness", "model")}
    positional = [str(part.get("id", "?")) for part in parts.values()]
    return shlex.join(
        ["agentcompass", "run", *positional, *_options(request, run_dir), "--reuse", info.run_id]
    )


def _options(request: Mapping[str, Any], run_dir: Path) -> Iterator[str]:
    model = request.get("model") or {}
    execution = request.get("execution") or {}
    environment = request.get("environment") or {}
    run_name = request.get("run_name")
    key = model.get("api_key")
    yield from _option("--env", environment.get("id"))
    for role, option in (
        ("benchmark", "benchmark"),
        ("harness", "harness"),
        ("environment", "env"),
    ):
        yield from _option(f"--{option}-params", (request.get(role) or {}).get("params"))
    yield from _option("--model-base-url", model.get("base_url"))
    yield from _option("--model-api-key", key if str(key).startswith("${") else None)
    for protocol in model.get("api_protocol") or ():
        yield from _option("--model-api-protocol", protocol)
    yield from _option("--model-params", model.get("params"))
    for recipe in execution.get("enabled_recipes") or ():
        yield from _option("--recipe", recipe)
    if execution.get("k", 1) > 1:
        yield from _option("--k", execution["k"])
        yield from _option("--attempt-strategy", execution.get("attempt_strategy"))
    yield from _option("--execution-params", _what_changes_answers(execution))
    yield from _option("--results-dir", run_dir.parents[1 if run_name is None else 2])
    yield from _option("--run-name", run_name)


def _what_changes_answers(execution: Mapping[str, Any]) -> dict[str, JSON]:
    names = ("run_timeout_seconds", "evaluate_timeout_seconds", "timeout_multiplier")
    set_ones = {name: execution[name] for name in names if execution.get(name) is not None}
    if set_ones.get("timeout_multiplier") == 1:  # times one changes nothing, so it need not be said
        del set_ones["timeout_multiplier"]
    return set_ones


def _option(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        # Null means the default, which is what leaving the key out means too.
        given = {key: item for key, item in value.items() if item is not None}
        value = json.dumps(given, ensure_ascii=False) if given else None
    if value is not None:
        yield from (name, str(value))
