"""What was resolved, as plain JSON: for `run.json` and `--dry-run`. What was given by reference stays a reference.

The result is itself an orchestration file: resolving it again gives the same orchestration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, final

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.secrets import MASK, Scrubber, Secret
from agentcompass.spec.codec import as_json
from agentcompass.spec.credentials import without_credentials
from agentcompass.spec.references import escape
from agentcompass.spec.resolved import (
    CALL_SETTINGS,
    ComponentConfig,
    ModelConfig,
    Orchestration,
    Request,
)
from agentcompass.spec.tree import Written
from agentcompass.spec.written import SUPPORTED_VERSION

Form: TypeAlias = Literal["stored", "counted"]
"""`stored` is for files; `counted`, with values in the place of references that are not secret, for the fingerprint."""


def as_written(
    value: object, node: Written | None, secrets: Iterable[Secret], form: Form = "stored"
) -> JSON:
    """Return a resolved value as one may write it down.

    Args:
        value: Resolved.
        node: What it was resolved from: says what was given by reference, and what is secret.
        secrets: Values that are masked wherever else they occur.
        form: What stands in the place of a reference.
    """
    scrubber = Scrubber()
    scrubber.register(*secrets)
    return _Writer(scrubber, form).write(as_json(value), node)


@final
@frozen
class _Writer:
    scrubber: Scrubber
    form: Form

    def write(self, value: JSON, node: Written | None) -> JSON:
        if value is None or node is None:
            return self._plain(value)
        instead = node.stored if self.form == "stored" else node.counted
        if node.is_secret:
            return instead if instead and self.form == "stored" else MASK
        if instead is not None:
            text = self.scrubber.scrub(instead)
            return text if self.form == "stored" else escape(text)
        if isinstance(value, dict):
            return {
                self.scrubber.scrub(key): self.write(item, node.get(key))
                for key, item in value.items()
            }
        if isinstance(value, list) and isinstance(node.data, tuple):
            return [
                self.write(item, _origin_of(item, at, node.data)) for at, item in enumerate(value)
            ]
        return self._plain(value)

    def _plain(self, value: JSON) -> JSON:
        """What has no origin of its own: a default, or something that a component made of what it was given."""
        if isinstance(value, dict):
            return {self.scrubber.scrub(k): self._plain(item) for k, item in value.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, str):
            return escape(self.scrubber.scrub(without_credentials(value)))
        return value


def _origin_of(item: JSON, position: int, nodes: tuple[Written, ...]) -> Written | None:
    """The node of a list's item; of a set, which has an order of its own, the one with that value."""
    here = nodes[position] if position < len(nodes) else None
    if here is not None and (here.data == item or not isinstance(item, str)):
        return here
    return next((node for node in nodes if node.data == item), here)


def written_model(config: ModelConfig, form: Form = "stored") -> Mapping[str, JSON]:
    """Return `base_url`, `api_protocol` and `params` of a model as one may write them down."""
    known = config.written if form == "stored" else config.counted
    if known is not None:
        return known
    secrets = (config.api_key,) if config.api_key else ()
    names = ("base_url", "api_protocol", "params")
    written: dict[str, JSON] = as_written(
        {name: getattr(config, name) for name in names}, None, secrets
    )
    return written


def written_execution(request: Request) -> Mapping[str, JSON]:
    """Return the execution settings of a request as one may write them down, all of them."""
    if request.written_execution is not None:
        return request.written_execution
    written: dict[str, JSON] = as_written(request.execution, None, ())
    return written


def written_runtime(orchestration: Orchestration) -> Mapping[str, JSON]:
    """Return the shared settings of an orchestration as one may write them down, all of them."""
    if orchestration.written_runtime is not None:
        return orchestration.written_runtime
    written: dict[str, JSON] = as_written(orchestration.runtime, None, orchestration.secrets)
    return written


def resolved_as_dict(orchestration: Orchestration) -> dict[str, JSON]:
    """Return an orchestration as it would be written in full, keys of our own under `x-`."""
    runtime = dict(written_runtime(orchestration))
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
        "execution": _given(written_execution(request)),
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
    settings = {name: getattr(config, name) for name in CALL_SETTINGS}
    written = written_model(config)
    section: dict[str, JSON] = {
        "id": as_written(config.id, None, secrets),
        "base_url": written["base_url"],
        "api_key": config.api_key.written if config.api_key else None,
        "api_protocol": written["api_protocol"],
        "params": {**written["params"], **_given(settings)},
    }
    return _given(section)


def _given(section: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in section.items() if value is not None}


def _scrubbed(text: str, secrets: tuple[Secret, ...]) -> JSON:
    return as_written(text, None, secrets)
