"""Components as configured: the section of a request and of the config files, structured with the component's `Params`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from agentcompass.components import registry
from agentcompass.components.base import Component
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError
from agentcompass.plan.config_files import ConfigFiles
from agentcompass.plan.merge import merge
from agentcompass.secrets import Secret
from agentcompass.spec.codec import changed_fields, structure, structure_value
from agentcompass.spec.dump import as_written
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from agentcompass.spec.resolved import ComponentConfig
from agentcompass.spec.tree import Origin, Written, mapping, report

RunningKind: TypeAlias = Literal["benchmark", "harness", "environment"]


@frozen(kw_only=True)
class ResolvedComponent:
    """A component's class and its configuration; each is None after a problem."""

    cls: type[Component[Any]] | None = None
    config: ComponentConfig | None = None


def resolve_component(
    kind: RunningKind,
    section: Written,
    config_files: ConfigFiles,
    *,
    references: References,
    problems: Problems,
) -> ResolvedComponent:
    """Resolve a flat component section that names its id.

    Args:
        kind: What it must be.
        section: Of the request, over that of the defaults.
        config_files: What they say about this id lies below `section`.
        references: Knows all secret values, for the form that is written down, and gets those of this component.
        problems: Gets unknown ids and wrong parameters.
    """
    node: Written = section.data["id"]
    name = structure_value(node, str, problems)
    cls = None if name is None else load_class(kind, name, node, problems)
    if name is None or cls is None:
        return ResolvedComponent()
    configured = config_files.component(kind, name)
    # merged under the section's own origin: what is missing is missed where the component is named
    merged = merge(configured, section.without("id", "params")) or section
    schema: type[object] = cls.Params
    params = structure(merged, schema, problems)
    if params is None:
        return ResolvedComponent(cls=cls)
    _collect(params, references)
    config = ComponentConfig(
        id=name,
        params=params,
        written=as_written(params, merged, references.secrets),
        counted=as_written(params, merged, references.secrets, "counted"),
        given=changed_fields(params),
    )
    return ResolvedComponent(cls=cls, config=config)


def _collect(params: object, references: References) -> None:
    for secret in _secrets_in(params):
        references.collect(secret.reveal(), secret.reference)


def _secrets_in(value: Any) -> Iterator[Secret]:
    """Every `Secret` in parameters: a field of that type is secret whatever its name."""
    if isinstance(value, Secret):
        yield value
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from _secrets_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _secrets_in(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secrets_in(item)


def load_class(
    kind: registry.Kind, name: str, node: Written, problems: Problems
) -> type[Component[Any]] | None:
    """Return a component's class; None after a problem about `node` was added."""
    try:
        return registry.load(kind, name)
    except ConfigurationError as exc:
        report(problems, node, str(exc).replace("\n", ". "))
        return None


def check_analysis(
    params: Mapping[str, Any], node: Written | None, references: References, problems: Problems
) -> None:
    """Check `analysis_params`: analyzers by id, each with a mapping of its own fields."""
    for name in params:
        item = (node.get(name) if node else None) or mapping(Origin(layer="", where=""))
        cls = load_class("analyzer", name, item, problems)
        if cls is not None:
            _collect(structure(item, cls.Params, problems), references)
