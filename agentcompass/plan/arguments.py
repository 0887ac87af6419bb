"""Arguments of the entry points and of the command line as trees, like what stands in files."""

from __future__ import annotations

from typing import Final

import attrs

from agentcompass.data import frozen
from agentcompass.options import NamedOption, RuntimeOptions, options_of
from agentcompass.plan.merge import merge, placed
from agentcompass.spec.document import ARGUMENT_LAYER, COMPONENT_SECTIONS
from agentcompass.spec.problems import Problem, Problems
from agentcompass.spec.tree import Origin, Written, from_python, kind_of, mapping, report

_ANY_FLAG: Final = "the command line"
_ANY_ARGUMENT: Final = "the arguments"


@frozen(kw_only=True)
class Arguments:
    """What was given as arguments."""

    shared: Written
    """Settings of all requests: a mapping with `runtime`."""
    request: Written
    """Settings of the one request of a single evaluation: a mapping of its sections."""


def arguments_of(options: RuntimeOptions, problems: Problems, *, as_flags: bool) -> Arguments:
    """Turn options into trees.

    Args:
        options: None means not given.
        problems: Gets values that are not plain data.
        as_flags: Whether messages speak of `--max-retries` or of `argument max_retries`.
    """
    origin = Origin(layer=ARGUMENT_LAYER, where=_ANY_FLAG if as_flags else _ANY_ARGUMENT)
    shared = request = mapping(origin)
    given = [option for option in options_of(type(options)) if option.path]
    # whole sections first, so that an option of its own wins over the same key in them
    for option in sorted(given, key=lambda option: str(option.path).count(".")):
        value = getattr(options, option.name)
        if value is None:
            continue
        node = from_python(value, origin_of(option, as_flags=as_flags), problems)
        _check_section(option, node, problems)
        tree = placed(str(option.path), node, origin)
        if option.is_shared:
            shared = merge(shared, tree) or shared
        else:
            request = merge(request, tree) or request
    return Arguments(shared=shared, request=request)


def origin_of(option: NamedOption, *, as_flags: bool) -> Origin:
    """Return the origin of what an option gives."""
    is_named = as_flags and option.flag is not None
    return Origin(
        layer=ARGUMENT_LAYER, where=str(option.flag) if is_named else f"argument {option.name}"
    )


def blame_options(problems: Problems, options: RuntimeOptions, *, as_flags: bool) -> None:
    """Let problems about what is missing among the arguments name the option that would give it."""
    by_path = {option.path: option for option in options_of(type(options))}

    def change(problem: Problem) -> Problem | None:
        if problem.where not in {_ANY_FLAG, _ANY_ARGUMENT}:
            return None
        option = by_path.get(f"{problem.path}.id") or by_path.get(problem.path)
        if option is None:
            return None
        where = origin_of(option, as_flags=as_flags).where
        return attrs.evolve(problem, where=where, path="")

    problems.relocate(change)


def _check_section(option: NamedOption, node: Written, problems: Problems) -> None:
    """Whole sections must be mappings, and leave the id to its own argument."""
    if option.form != "object":
        return
    if not node.is_mapping:
        report(problems, node, f"must be a mapping, not {kind_of(node)}")
    elif option.path in COMPONENT_SECTIONS and node.get("id") is not None:
        report(problems, node, f"the id is argument {option.path!r}, not a parameter", "id")
