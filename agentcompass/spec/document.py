"""Checks an orchestration's shape: every key known, every written value of its type, the rest left to resolving."""

from __future__ import annotations

from typing import Final

import attrs

from agentcompass.spec.codec import check_fields, fields_of, structure_value
from agentcompass.spec.problems import Problems
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig
from agentcompass.spec.tree import Written, kind_of, report, report_key, report_unknown_keys
from agentcompass.spec.written import (
    SUPPORTED_VERSION,
    ModelSection,
    OrchestrationDefaults,
    OrchestrationSpec,
    OutputSection,
    ReuseSection,
    RunRequestSpec,
)

ARGUMENT_LAYER: Final = "argument"
"""Layer of what comes from the arguments of a single evaluation, which need no names."""
COMPONENT_SECTIONS: Final = ("benchmark", "harness", "environment")

_TO_TOP: Final = "belongs to the top level: write `task_concurrency` beside `requests`"
_TO_ARGUMENT: Final = "is an argument of its own: `task_concurrency`"
_TO_REQUEST: Final = (
    "belongs to requests: write it under `defaults.runtime` or `requests[].runtime`"
)
_TO_RUNTIME: Final = "concerns all requests: write it under the top-level `runtime`"


def names_of(cls: type) -> tuple[str, ...]:
    """Return the field names of an attrs class, which are the keys that people may write."""
    return tuple(field.name for field in attrs.fields(cls) if not field.name.startswith("_"))


def check_shared(root: Written, problems: Problems, *, is_used: bool = True) -> None:
    """Check what an orchestration says beside its requests; a problem for all that cannot be right, whatever is merged.

    Args:
        root: An orchestration whose matrix is expanded.
        problems: Gets what is wrong.
        is_used: False leaves out the faults of references: whoever uses the value will meet them.
    """
    report_unknown_keys(problems, root, names_of(OrchestrationSpec))
    _check_version(root, problems)
    _check_top(root, problems, is_used=is_used)
    defaults = root.get("defaults")
    if defaults is not None:
        _check_request(defaults, OrchestrationDefaults, problems)
    matrix, requests = root.get("matrix"), root.get("requests")
    has_matrix = matrix is not None and matrix.data is not None
    if requests is None or requests.data is None:
        if not has_matrix:
            report(problems, root, "is required: a list with at least one request", "requests")
    elif not isinstance(requests.data, tuple):
        report(problems, requests, f"must be a list of requests, not {kind_of(requests)}")
    elif not requests.data and not has_matrix:
        report(problems, requests, "has no request: there is nothing to run")


def check_requests(root: Written, problems: Problems, *, is_used: bool = True) -> None:
    """Check the requests of an orchestration in the same way."""
    requests = root.get("requests")
    if requests is None or not isinstance(requests.data, tuple):
        return
    for request in requests.data:
        _check_request(request, RunRequestSpec, problems)
    _check_names(requests, problems, is_used=is_used)


def check_component(section: Written, problems: Problems) -> None:
    """Check what all flat component sections share."""
    if section.data is None:
        return
    if not section.is_mapping:
        report(problems, section, f"must be a mapping with an `id`, not {kind_of(section)}")
        return
    nested = section.get("params")
    if nested is not None:
        sentence = "component sections are flat: write the fields of `params` beside `id`"
        report_key(problems, nested, sentence)
    name = section.get("id")
    if name is not None and name.data is not None:
        structure_value(name, str, problems, is_used=False)


def check_execution(section: Written, problems: Problems, *, elsewhere: str = _TO_TOP) -> None:
    """Check an `execution` section; `elsewhere` says where `task_concurrency` goes."""
    check_fields(section, ExecutionConfig, problems, elsewhere={"task_concurrency": elsewhere})


def check_runtime(section: Written, problems: Problems, *, in_config_file: bool) -> None:
    """Check a `runtime` section for all requests; only in a config file it has `task_concurrency`."""
    elsewhere = dict.fromkeys(names_of(ReuseSection), _TO_REQUEST)
    if not in_config_file:
        elsewhere["task_concurrency"] = _TO_TOP
    check_fields(section, RuntimeConfig, problems, elsewhere=elsewhere)


def _check_version(root: Written, problems: Problems) -> None:
    version = root.get("version")
    if version is None or version.data is None:
        return
    value = structure_value(version, int, problems, is_used=False)
    if value is not None and value != SUPPORTED_VERSION:
        report(
            problems, version, f"must be {SUPPORTED_VERSION}, the only one there is, not {value}"
        )


def _check_top(root: Written, problems: Problems, *, is_used: bool) -> None:
    fields = {"task_concurrency": RuntimeConfig, "name": OrchestrationSpec}
    for key, cls in fields.items():
        node = root.get(key)
        if node is not None and node.data is not None:
            structure_value(node, fields_of(cls)[key], problems, is_used=is_used)
    runtime = root.get("runtime")
    if runtime is not None:
        # of single evaluations too, since their arguments become such a document
        in_arguments = runtime.origin.layer == ARGUMENT_LAYER
        check_runtime(runtime, problems, in_config_file=in_arguments)


def _check_request(request: Written, cls: type, problems: Problems) -> None:
    if request.data is None and cls is OrchestrationDefaults:
        return
    if not request.is_mapping:
        report(problems, request, f"must be a mapping, not {kind_of(request)}")
        return
    report_unknown_keys(problems, request, names_of(cls))
    for key, section in request.items():
        if key in COMPONENT_SECTIONS:
            check_component(section, problems)
        elif key == "execution":
            is_argument = request.origin.layer == ARGUMENT_LAYER
            check_execution(section, problems, elsewhere=_TO_ARGUMENT if is_argument else _TO_TOP)
        elif key == "runtime":
            elsewhere = dict.fromkeys(names_of(RuntimeConfig), _TO_RUNTIME)
            elsewhere["task_concurrency"] = _TO_TOP
            check_fields(section, ReuseSection, problems, elsewhere=elsewhere)
        elif key == "model":
            check_fields(section, ModelSection, problems)
        elif key == "output":
            check_fields(section, OutputSection, problems)


def _check_names(requests: Written, problems: Problems, *, is_used: bool) -> None:
    """Names are required, non-empty and unique; those of single evaluations are made later."""
    seen: dict[str, Written] = {}
    for request in requests.data:
        if not request.is_mapping or request.origin.layer == ARGUMENT_LAYER:
            continue
        node = request.get("name")
        if node is None or node.data is None:
            report(problems, request, "is required", "name")
            continue
        name = structure_value(node, str, problems, is_used=is_used)
        if name is None:
            continue
        if not name.strip() or not name.isprintable():
            report(problems, node, "must be a non-empty line of printable text")
        elif name in seen:
            first = seen[name].origin
            where = first.where if first.where != node.origin.where else first.path
            report(problems, node, f"the name {name!r} is taken (first at {where})")
        else:
            seen[name] = node
