"""What a person should know before an orchestration runs, beside what keeps it from running. Pure.

`--dry-run` shows it. Nothing here is an error: every orchestration that resolves may run as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.components import registry
from agentcompass.data import frozen
from agentcompass.plan.fingerprint import fingerprint, identity
from agentcompass.records import JSON
from agentcompass.secrets import Scrubber, Secret
from agentcompass.spec.problems import join_path
from agentcompass.spec.resolved import ExecutionConfig, Orchestration, Request
from agentcompass.spec.secret_names import is_secret_name

Topic: TypeAlias = Literal["same-evaluation", "own-judge", "idle-limit", "idle-setting"]

_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")


@frozen(kw_only=True)
class Caution:
    """Something that is allowed and probably not meant."""

    topic: Topic
    """Kebab-case name of its kind, for programs."""
    requests: tuple[str, ...]
    """Names of the requests it concerns, in order; empty: the orchestration as a whole."""
    sentence: str
    """What it is, without a full stop; it names the settings, not the requests."""


@frozen(kw_only=True)
class Credential:
    """A secret that requests use, or the key of an endpoint that is missing."""

    path: str
    """Dotted path in a request: `model.api_key`, `environment.env_variables.SERVICE_TOKEN`."""
    reference: str | None
    """How it is given: `${NAME}`; None: in clear, or not at all."""
    is_present: bool
    """Whether there is a value that is not empty."""
    requests: tuple[str, ...]
    """Names of the requests that use it, in order."""


@frozen(kw_only=True)
class Advice:
    """Everything that can be said of an orchestration without looking at anything else."""

    cautions: tuple[Caution, ...]
    credentials: tuple[Credential, ...]


def advise(orchestration: Orchestration) -> Advice:
    """Look at a resolved orchestration; reads no file, opens no connection.

    Args:
        orchestration: Resolved, so that every component can be loaded.

    Returns:
        Cautions by topic, then in the order of requests, and credentials in the order of their first use. What
        several requests have in common is said once.
    """
    return Advice(
        cautions=(
            *_same_evaluations(orchestration),
            *_together("own-judge", orchestration.requests, _own_judges),
            *_idle_limits(orchestration),
            *_together("idle-limit", orchestration.requests, _idle_deadlines(orchestration)),
            *_together("idle-setting", orchestration.requests, _idle_settings),
            *_idle_weight(orchestration),
        ),
        credentials=tuple(_credentials(orchestration.requests)),
    )


def _together(
    topic: Topic, requests: Iterable[Request], sentences: Callable[[Request], Iterable[str]]
) -> Iterator[Caution]:
    """One caution for each sentence, about all requests of which it is true."""
    names: dict[str, list[str]] = {}
    for request in requests:
        for sentence in sentences(request):
            names.setdefault(sentence, []).append(request.name)
    for sentence, concerned in names.items():
        yield Caution(topic=topic, requests=tuple(concerned), sentence=sentence)


# --- requests


def _same_evaluations(orchestration: Orchestration) -> Iterator[Caution]:
    """Requests of one fingerprint that also select the same tasks."""
    scrubber = Scrubber()
    scrubber.register(*orchestration.secrets)
    same: dict[str, list[str]] = {}
    for request in orchestration.requests:
        described = identity(
            request,
            dataset_version="",  # of one benchmark with the same parameters there is one version
            component_versions={},
            recipes=request.execution.enabled_recipes,
            scrubber=scrubber,
        )
        selection = request.benchmark.counted or request.benchmark.written
        key = fingerprint({"identity": described.fingerprint, "selection": dict(selection)})
        same.setdefault(key, []).append(request.name)
    for names in same.values():
        if len(names) > 1:
            sentence = (
                "evaluate the same thing: names and limits apart, all their settings are equal"
            )
            yield Caution(topic="same-evaluation", requests=tuple(names), sentence=sentence)


def _own_judges(request: Request) -> Iterator[str]:
    sections = {
        "benchmark": request.benchmark.params,
        "execution.analysis_params": request.execution.analysis_params,
    }
    for section, params in sections.items():
        for path, value in _leaves(params, section):
            key = path.removeprefix(section)
            if "judge" in key and value == request.model.id:
                yield f"{path} is {value!r}, the model that is evaluated: it judges itself"


# --- limits and settings without effect


def _idle_limits(orchestration: Orchestration) -> Iterator[Caution]:
    runtime = orchestration.runtime
    used = {request.environment.id for request in orchestration.requests}
    for setting in ("provider_limits", "env_open_qps"):
        for name, limit in getattr(runtime, setting).items():
            path = join_path(f"runtime.{setting}", name)
            if not limit:
                continue
            if name not in used:
                sentence = f"{path} limits nothing: no request uses this environment"
            elif setting == "provider_limits" and limit >= runtime.task_concurrency:
                sentence = f"{path} limits nothing: it is {limit}, and task_concurrency is {runtime.task_concurrency}"
            else:
                continue
            yield Caution(topic="idle-limit", requests=(), sentence=sentence)


def _idle_deadlines(orchestration: Orchestration) -> Callable[[Request], Iterator[str]]:
    whole = orchestration.runtime.timeout_seconds

    def sentences(request: Request) -> Iterator[str]:
        for name, seconds in _chosen(request.execution).items():
            if name.endswith("_timeout_seconds") and whole and (seconds or 0) >= whole:
                yield f"execution.{name} is {seconds:g}, and the whole may take {whole:g} seconds"

    return sentences


def _idle_settings(request: Request) -> Iterator[str]:
    execution = request.execution
    chosen = _chosen(execution)
    if not execution.max_retries:
        for name in ("retry_pattern_list", "retry_min_delay_seconds", "retry_max_delay_seconds"):
            if name in chosen:
                yield f"execution.{name} has no effect: max_retries is 0"
    if execution.k == 1 and "attempt_strategy" in chosen:
        yield "execution.attempt_strategy has no effect: k is 1"
    if execution.analysis_params and not execution.enable_analysis:
        yield "execution.analysis_params has no effect: enable_analysis is false"
    if request.reuse_run_id and not request.reuse:
        yield "runtime.reuse_run_id has no effect: reuse is false"


def _idle_weight(orchestration: Orchestration) -> Iterator[Caution]:
    requests = orchestration.requests
    if len(requests) == 1 and requests[0].weight != 1:
        sentence = "weight has no effect: there is no other request"
        yield Caution(topic="idle-setting", requests=(requests[0].name,), sentence=sentence)


def _chosen(execution: ExecutionConfig) -> dict[str, Any]:
    """The settings that are not the built-in ones."""
    built_in = attrs.asdict(ExecutionConfig(), recurse=False)
    given = attrs.asdict(execution, recurse=False)
    return {name: value for name, value in given.items() if value != built_in[name]}


# --- credentials


def _credentials(requests: Iterable[Request]) -> Iterator[Credential]:
    names: dict[Credential, list[str]] = {}
    for request in requests:
        for credential in _credentials_of(request):
            names.setdefault(credential, []).append(request.name)
    for credential, users in names.items():
        yield attrs.evolve(credential, requests=tuple(users))


def _credentials_of(request: Request) -> Iterator[Credential]:
    model = request.model
    if registry.load("harness", request.harness.id).needs_model:
        if model.served_version is None:
            key = model.api_key.reveal() if model.api_key else ""
            yield _credential("model.api_key", key, (model.written or {}).get("api_key"))
        yield from _secrets(model.params, (model.written or {}).get("params"), "model.params")
    for role in ("benchmark", "harness", "environment"):
        config = getattr(request, role)
        yield from _secrets(config.params, config.written, role)


def _secrets(
    value: Any, written: JSON, path: str, *, is_secret: bool = False
) -> Iterator[Credential]:
    """What is secret in parameters, for its type or for a name above it; not what is simply not given."""
    if isinstance(value, Secret):
        yield _credential(path, value.reveal(), value.reference)
    elif isinstance(value, str) and is_secret:
        found = _credential(path, value, written)
        if found.is_present or found.reference:
            yield found
    for name, item in _items(value):
        below = dict(_items(written)).get(name)
        named = is_secret or (isinstance(name, str) and is_secret_name(name))
        yield from _secrets(item, below, join_path(path, name), is_secret=named)


def _credential(path: str, value: str, written: JSON) -> Credential:
    reference = written if isinstance(written, str) and _REFERENCE.search(written) else None
    # `Bearer ${KEY}` without a key is no credential
    around = _REFERENCE.sub("", reference or "")
    return Credential(
        path=path, reference=reference, is_present=value.strip() != around.strip(), requests=()
    )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, value
    for name, item in _items(value):
        yield from _leaves(item, join_path(path, name))


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    """What is inside parameters, with its keys."""
    if attrs.has(type(value)):
        yield from attrs.asdict(value, recurse=False).items()
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
