"""A request as plain JSON for `run.json`, and the command that finishes what a run is missing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from agentcompass.options import NamedOption, RunOptions, options_of
from agentcompass.records import JSON
from agentcompass.secrets import MASK
from agentcompass.spec.codec import as_json, default_of
from agentcompass.spec.dump import written_execution, written_model, written_runtime
from agentcompass.spec.resolved import (
    CALL_SETTINGS,
    ComponentConfig,
    ExecutionConfig,
    ModelConfig,
    Orchestration,
    Request,
)
from agentcompass.spec.written import DEFAULT_ENVIRONMENT
from agentcompass.store.info import RunInfo

_ROLES: Final = ("benchmark", "harness", "environment")
_CHOSEN_ANEW: Final = {
    f"runtime.{name}"
    for name in ("progress", "log_level", "file_log_level", "results_dir", "reuse", "reuse_run_id")
}
"""What a command that finishes a run does not repeat: how it is shown, and what follows from the run itself."""


def written_request(
    request: Request, orchestration: Orchestration | None = None
) -> dict[str, JSON]:
    """Return a request as it may be stored: what was given by reference as that reference, other secrets masked.

    Args:
        request: What is to be run.
        orchestration: Whose shared settings are stored with it, those that somebody gave; None leaves them out.
    """
    model = request.model
    shared = written_runtime(orchestration) if orchestration else {}
    given = orchestration.given_runtime if orchestration else ()
    return {
        "name": request.name,
        "benchmark": _component(request.benchmark),
        "harness": _component(request.harness),
        "environment": _component(request.environment),
        "model": {
            "id": model.id,
            **written_model(model),
            "api_key": None if model.api_key is None else model.api_key.written,
            **{name: getattr(model, name) for name in CALL_SETTINGS},
        },
        "execution": dict(written_execution(request)),
        "runtime": {name: shared[name] for name in given},
        "run_name": request.run_name,
        "run_id": request.run_id,
        "reuse": request.reuse,
        "reuse_run_id": request.reuse_run_id,
        "weight": request.weight,
    }


def _component(config: ComponentConfig) -> dict[str, JSON]:
    written = dict(config.written)
    given = written if config.given is None else config.given
    return {"id": config.id, "params": written, "given": list(given)}


def finish_command(info: RunInfo, run_dir: Path, *, is_any_graded: bool = True) -> str:
    """Return the shell command that executes what a run is missing and reuses what it has.

    It says what differs from the built-in defaults and nothing else. Secrets are not in it: what was given by
    reference stays a reference; any other has to be given again.

    Args:
        info: The run; its `request` as `written_request` gives it.
        run_dir: Where it stands, from which the results directory follows.
        is_any_graded: Whether there is anything to reuse; if not, it is the same command again.
    """
    if info.regraded_from is not None:
        earlier = run_dir.parent / info.regraded_from
        return shlex.join(["agentcompass", "regrade", str(earlier)])
    settings = _settings(info.request)
    up = 2 if info.request.get("run_name") is None else 3
    settings["runtime.results_dir"] = str(run_dir.parents[up - 1])
    words: list[str] = []
    for option in sorted(options_of(RunOptions), key=lambda option: option.is_shared):
        value = settings.get(option.path or "")
        if value is not None and option.flag is not None:
            words += _said(option, value)
    ids = [
        str((info.request.get(role) or {}).get("id", "?"))
        for role in ("benchmark", "harness", "model")
    ]
    reuse = ["--reuse", info.run_id] if is_any_graded else []
    return shlex.join(["agentcompass", "run", *ids, *words, *reuse])


def run_options(info: RunInfo) -> dict[str, Any]:
    """Return what a run was told, as keyword arguments of `options.RunOptions`, without the key of its model."""
    settings = _settings(info.request) | {"model.api_key": None}
    found = {
        option.name: settings.get(option.path or "")
        for option in options_of(RunOptions)
        if option.form != "reuse"
    }
    ids = {role: (info.request.get(role) or {}).get("id") for role in (*_ROLES, "model")}
    return {name: value for name, value in (found | ids).items() if value is not None}


def _settings(request: Mapping[str, Any]) -> dict[str, JSON]:
    """What a run was told beyond the defaults, by the path that an option has."""
    found: dict[str, JSON] = {"output.run_name": request.get("run_name")}
    for role in _ROLES:
        component = request.get(role) or {}
        params = component.get("params") or {}
        given = component.get("given", params)
        found[role] = {name: params[name] for name in given if params.get(name) is not None}
    environment = (request.get("environment") or {}).get("id")
    found["environment.id"] = None if environment == DEFAULT_ENVIRONMENT else environment
    found |= _model_settings(request.get("model") or {})
    own_options = {option.path for option in options_of(RunOptions)}
    execution = _changed(request.get("execution") or {}, as_json(ExecutionConfig()))
    found |= {f"execution.{name}": value for name, value in execution.items()}
    found["execution"] = {
        name: value for name, value in execution.items() if f"execution.{name}" not in own_options
    }
    shared = request.get("runtime") or {}
    found |= {f"runtime.{name}": value for name, value in shared.items()}
    return {
        path: value for path, value in found.items() if path not in _CHOSEN_ANEW and value != {}
    }


def _model_settings(model: Mapping[str, Any]) -> dict[str, JSON]:
    defaults = {field.name: default_of(field) for field in attrs.fields(ModelConfig)}
    protocol, key = model.get("api_protocol"), model.get("api_key")
    limits = {name: model[name] for name in CALL_SETTINGS if name in model}
    return {
        "model.base_url": model.get("base_url"),
        "model.api_key": None if MASK in str(key) else key,
        "model.api_protocol": None if protocol == defaults["api_protocol"] else protocol,
        "model.params": {**(model.get("params") or {}), **_changed(limits, defaults)},
    }


def _changed(settings: Mapping[str, JSON], defaults: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in settings.items() if value != defaults.get(name)}


def _said(option: NamedOption, value: JSON) -> Iterator[str]:
    """An option with its value, as words of a command line."""
    flag = str(option.flag)
    if option.form in ("object", "array"):
        yield from (flag, json.dumps(value, ensure_ascii=False))
    elif option.form == "switch":
        yield flag if value else f"--no-{flag.removeprefix('--')}"
    elif option.form == "pairs":
        for name, number in value.items():
            yield from (flag, f"{name}={_text(number)}")
    else:
        for item in value if isinstance(value, list) else [value]:
            yield from (flag, _text(item))


def _text(value: JSON) -> str:
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value.is_integer() else str(value)
