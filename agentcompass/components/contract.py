"""What the registry checks of a component class before anything uses it.

A plug-in's mistake is found here, with its name, instead of in the middle of a run.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from agentcompass.components.base import (
    Analyzer,
    Benchmark,
    Component,
    Environment,
    Harness,
    Recipe,
    Where,
)
from agentcompass.records import Metric

Kind: TypeAlias = Literal["benchmark", "harness", "environment", "recipe", "analyzer"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

BASES: Final[dict[Kind, type[Component[Any]]]] = {
    "benchmark": Benchmark,
    "harness": Harness,
    "environment": Environment,
    "recipe": Recipe,
    "analyzer": Analyzer,
}

_AWAITED: Final = (Environment.preflight, Environment.check_listening, Environment.remove)
"""Methods that are awaited where no thread stands by to run a plain function."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def kind_of(cls: object) -> Kind | None:
    """Return the kind whose base class `cls` derives from; None if it is no component class."""
    if not inspect.isclass(cls):
        return None
    return next((kind for kind, base in BASES.items() if issubclass(cls, base)), None)


def faults_of(cls: type[Component[Any]], kind: Kind) -> list[str]:
    """Return, as sentences without a subject, what a class still owes its base class; empty if nothing."""
    faults = _common_faults(cls)
    if kind == "benchmark":
        faults += _benchmark_faults(cls)
    elif kind == "harness":
        faults += _harness_faults(cls)
    return faults


def _common_faults(cls: type[Component[Any]]) -> list[str]:
    faults = []
    name = getattr(cls, "id", None)
    if not isinstance(name, str):
        faults.append("has no class variable `id`")
    elif _ID.fullmatch(name) is None:
        faults.append(f"has the id {name!r}: letters, digits, `.`, `_` and `-` only")
    faults += [
        f"has a `{attribute}` that is no text"
        for attribute in ("description", "version")
        if not isinstance(getattr(cls, attribute, None), str)
    ]
    extra, requires = getattr(cls, "extra", None), getattr(cls, "requires", None)
    if not isinstance(extra, str | None):
        faults.append("has an `extra` that is no text")
    if not isinstance(requires, tuple) or not all(isinstance(name, str) for name in requires):
        faults.append("has `requires` that is no tuple of texts")
    if not (inspect.isclass(cls.Params) and attrs.has(cls.Params)):
        faults.append("has a `Params` that is no attrs class")
    faults += _method_faults(cls)
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        faults.append(f"lacks {', '.join(f'`{method}`' for method in missing)}")
    return faults


def _method_faults(cls: type[Component[Any]]) -> list[str]:
    """What has the name of a base class's method must be a method, and of a kind that the engine can call."""
    kind = kind_of(cls)
    faults = []
    for name, declared in inspect.getmembers(BASES[kind] if kind else cls, inspect.isfunction):
        fault = None if name.startswith("_") else _method_fault(getattr(cls, name), declared)
        if fault:
            faults.append(f"has {fault.format(name)}")
    return faults


def _method_fault(found: Any, declared: Any) -> str | None:
    """What is wrong with a method, with a place for its name; `async` ones may be plain where a thread can run them."""
    if not callable(found):
        return f"a `{{}}` that is no method but {type(found).__name__}"
    if inspect.isasyncgenfunction(found):
        return "an asynchronous generator `{}`: it must return, or be an `@asynccontextmanager` where it opens something"
    is_async = inspect.iscoroutinefunction(inspect.unwrap(found))
    if is_async and not inspect.iscoroutinefunction(declared):
        return "an `async` `{}`: it must be a plain function"
    if not is_async and declared in _AWAITED:
        return "a plain `{}`: it must be `async`"
    return None


def _benchmark_faults(cls: type[Component[Any]]) -> list[str]:
    faults = []
    if not isinstance(getattr(cls, "evaluates_in", None), Where):
        faults.append("has an `evaluates_in` that is no `Where`")
    metrics = getattr(cls, "metrics", None)
    if not isinstance(metrics, tuple) or not metrics:
        faults.append("has no class variable `metrics` (a tuple of `Metric`)")
    elif not all(isinstance(metric, Metric) for metric in metrics):
        faults.append("has something in `metrics` that is no `Metric`")
    else:
        names = [metric.name for metric in metrics]
        if len(set(names)) < len(names):
            faults.append("has two `metrics` of one name")
        if sum(metric.primary for metric in metrics) != 1:
            faults.append("must have exactly one primary metric")
    return faults


def _harness_faults(cls: type[Component[Any]]) -> list[str]:
    protocols = getattr(cls, "protocols", None)
    if not isinstance(protocols, tuple) or not all(isinstance(name, str) for name in protocols):
        return ["has `protocols` that are no tuple of texts"]
    sends = getattr(cls, "sends", ())
    if not isinstance(sends, tuple) or not all(isinstance(name, str) for name in sends):
        return ["has `sends` that is no tuple of texts"]
    if getattr(cls, "needs_model", True) and not protocols:
        return ["needs a model but lists no `protocols`"]
    return []
