"""One request: what it says over the defaults, over the config files, over what is built in."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, TypeVar, cast

import attrs

from agentcompass.components.base import Harness
from agentcompass.data import frozen
from agentcompass.plan.components import ResolvedComponent, RunningKind, resolve_component
from agentcompass.plan.config_files import ConfigFiles
from agentcompass.plan.execution import resolve_execution
from agentcompass.plan.merge import inherit, merge, merge_all
from agentcompass.plan.model import resolve_model
from agentcompass.spec.codec import structure_settings, structure_value
from agentcompass.spec.dump import as_written
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import PositiveFloat
from agentcompass.spec.references import References
from agentcompass.spec.resolved import ExecutionConfig, ModelConfig, Request
from agentcompass.spec.tree import Origin, Written, mapping, report, text_of
from agentcompass.spec.written import DEFAULT_ENVIRONMENT, OutputSection, ReuseSection
from agentcompass.store.layout import safe_name

T = TypeVar("T")


@frozen(kw_only=True)
class Surroundings:
    """What all requests of one orchestration are resolved with."""

    config_files: ConfigFiles
    defaults: Written | None
    references: References
    """Knows all secrets that are written anywhere, and gets those of the components."""
    own_recipes: Container[str]
    """Ids of the recipes of the run's own folders."""
    default_run_id: str
    problems: Problems
    notes: list[str]
    """Gets what might surprise."""


def resolve_request(request: Written, around: Surroundings) -> Request | None:
    """Resolve one request; None after at least one problem was added."""
    problems = around.problems
    benchmark = _component("benchmark", request, around)
    harness = _component("harness", request, around)
    environment = _component("environment", request, around)
    model = resolve_model(
        merge(_default("model", around), request.get("model")),
        request,
        harness=cast("type[Harness[Any]] | None", harness.cls),
        secrets=around.references.secrets,
        problems=problems,
    )
    section = merge_all(
        (
            around.config_files.section("execution"),
            _default("execution", around),
            request.get("execution"),
        )
    )
    execution = resolve_execution(
        section, own_recipes=around.own_recipes, references=around.references, problems=problems
    )
    resolved = _assemble(request, around, (benchmark, harness, environment), model, execution)
    if resolved is None:
        return None
    written = as_written(execution, section, around.references.secrets)
    return attrs.evolve(resolved, written_execution=written)


def _assemble(
    request: Written,
    around: Surroundings,
    components: tuple[ResolvedComponent, ResolvedComponent, ResolvedComponent],
    model: ModelConfig,
    execution: ExecutionConfig,
) -> Request | None:
    benchmark, harness, environment = (component.config for component in components)
    reuse = _section(ReuseSection, "runtime", ("reuse_run_id",), request, around)
    output = _section(OutputSection, "output", ("run_name", "run_id"), request, around)
    weight = _weight(request, around.problems)
    if not (benchmark and harness and environment):
        return None
    name = text_of(request.get("name")) or f"{model.id}_{benchmark.id}_{harness.id}"
    return Request(
        name=name,
        benchmark=benchmark,
        harness=harness,
        environment=environment,
        model=model,
        execution=execution,
        run_name=output.run_name,
        run_id=output.run_id or around.default_run_id,
        run_id_is_given=output.run_id is not None,
        reuse=reuse.reuse_run_id is not None if reuse.reuse is None else reuse.reuse,
        reuse_run_id=reuse.reuse_run_id,
        weight=weight,
    )


def _default(key: str, around: Surroundings) -> Written | None:
    return around.defaults.get(key) if around.defaults else None


def _component(kind: RunningKind, request: Written, around: Surroundings) -> ResolvedComponent:
    section, dropped = inherit(_default(kind, around), request.get(kind))
    if dropped:
        which = f"request {text_of(request.get('name'))!r} names another {kind} than `defaults`"
        around.notes.append(f"{which}: {', '.join(dropped)} of `defaults.{kind}` not inherited")
    has_id = section is not None and text_of(section.get("id")) is not None
    if kind == "environment" and not has_id:
        origin = Origin(layer="built-in default", where="")
        items = dict(section.items()) if section else {}
        items["id"] = Written(data=DEFAULT_ENVIRONMENT, origin=origin)
        section = mapping(section.origin if section else origin, items)
    elif section is None or not section.is_mapping:
        if section is None or section.data is None:
            report(around.problems, request, "is required", kind)
        return ResolvedComponent()
    elif not has_id:
        report(around.problems, section, "is required", "id")
        return ResolvedComponent()
    return resolve_component(
        kind,
        section,
        around.config_files,
        references=around.references,
        problems=around.problems,
    )


def _section(
    cls: type[T], key: str, folders: tuple[str, ...], request: Written, around: Surroundings
) -> T:
    """Resolve a section of plain settings, some of which are names of folders."""
    section = merge(_default(key, around), request.get(key))
    if section is None or section.data is None:
        return cls()
    config = structure_settings(section, cls, around.problems)
    for name in folders:
        folder = getattr(config, name)
        if folder is not None and not is_folder_name(folder):
            sentence = (
                f"must be usable as the name of one folder, as letters, digits, `.`, `_` and `-` are, "
                f"not {folder!r:.80}"
            )
            report(around.problems, section, sentence, name)
    return config


def is_folder_name(text: str) -> bool:
    """Whether the store keeps a text as it is when it names a folder after it."""
    return safe_name(text, keep_case=True) == text


def _weight(request: Written, problems: Problems) -> float:
    node = request.get("weight")
    if node is None or node.data is None:
        return 1.0
    return float(structure_value(node, PositiveFloat, problems) or 1.0)
