"""From an id to a component class; nothing is imported before it is asked for.

An id is looked up among the built-ins, then among classes marked with `@register` and the entry points of
installed packages (groups `agentcompass.benchmarks`, `.harnesses`, `.environments`, `.recipes`, `.analyzers`;
the entry point's name is the id). `package.module:Class` is accepted wherever an id is. Recipes of
`recipe_dirs` belong to the run that names the folder: `components.recipes.folders.load_recipe_dirs`.

A plug-in that cannot be imported is an error for whoever asks for that plug-in, and for nobody else.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast, overload

from agentcompass.components.base import (
    Analyzer,
    Benchmark,
    Component,
    Environment,
    Harness,
    Recipe,
)
from agentcompass.components.contract import BASES, KINDS, Kind, faults_of, kind_of
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, UnknownComponentError

__all__ = [
    "KINDS",
    "Kind",
    "known",
    "load",
    "load_recipe_dirs",
    "register",
]

AnyComponent = type[Component[Any]]
C = TypeVar("C", bound=AnyComponent)

RECIPE_DIR_PREFIX: Final = "agentcompass_recipe_dir_"
"""Top-level module name, before a number, of a recipe folder; what it registers is invisible here."""


@frozen
class Builtin:
    """Where a built-in stands, and its line in lists."""

    path: str
    """`package.module:Class` below `agentcompass.components`."""
    description: str


BUILTINS: Final[Mapping[Kind, Mapping[str, Builtin]]] = {
    "benchmark": {
        "harbor": Builtin(
            "benchmarks.harbor.benchmark:Harbor", "Task directories in the Harbor format"
        ),
        "humaneval": Builtin(
            "benchmarks.humaneval:HumanEval", "HumanEval: complete 164 Python functions"
        ),
        "jsonl": Builtin("benchmarks.jsonl:JsonLines", "Tasks and answers from a local JSONL file"),
        "swebench_full": Builtin(
            "benchmarks.swebench.benchmark:SweBenchFull",
            "SWE-bench: 2,294 issues of Python projects",
        ),
        "swebench_lite": Builtin(
            "benchmarks.swebench.benchmark:SweBenchLite",
            "SWE-bench Lite: 300 issues of Python projects",
        ),
        "swebench_multilingual": Builtin(
            "benchmarks.swebench.benchmark:SweBenchMultilingual",
            "SWE-bench Multilingual: 300 issues of projects in nine languages",
        ),
        "swebench_verified": Builtin(
            "benchmarks.swebench.benchmark:SweBenchVerified",
            "SWE-bench Verified: 500 issues of Python projects",
        ),
        "terminal_bench_2": Builtin(
            "benchmarks.harbor.terminal_bench:TerminalBench2",
            "Terminal-Bench 2.0: 89 tasks in a terminal",
        ),
        "terminal_bench_2_1": Builtin(
            "benchmarks.harbor.terminal_bench:TerminalBench21",
            "Terminal-Bench 2.1: 89 tasks in a terminal",
        ),
        "terminal_bench_2_verified": Builtin(
            "benchmarks.harbor.terminal_bench:TerminalBench2Verified",
            "Terminal-Bench 2.0 with the faults of its tasks mended by Z.ai",
        ),
        "terminal_bench_core": Builtin(
            "benchmarks.harbor.terminal_bench:TerminalBenchCore",
            "Terminal-Bench's first generation: 80 tasks, and others in its format",
        ),
    },
    "harness": {
        "claude_code": Builtin(
            "harnesses.claude_code.harness:ClaudeCode",
            "Claude Code, in the sandbox, over a gateway to the model",
        ),
        "codex": Builtin(
            "harnesses.codex.harness:Codex", "Codex, in the sandbox, over a gateway to the model"
        ),
        "mini_swe_agent": Builtin(
            "harnesses.mini_swe_agent.harness:MiniSweAgent",
            "The agent of the package mini-swe-agent, with a shell",
        ),
        "nop": Builtin("harnesses.nop:Nop", "Does nothing: the floor of every benchmark"),
        "openai_chat": Builtin(
            "harnesses.openai_chat:OpenAIChat", "One model call; its text is the answer"
        ),
        "oracle": Builtin("harnesses.oracle:Oracle", "Applies the benchmark's reference solution"),
        "terminus2": Builtin(
            "harnesses.terminus2.harness:Terminus2",
            "The Terminus 2 agent: a model with nothing but a terminal",
        ),
        "tool_loop": Builtin(
            "harnesses.tool_loop.loop:ToolLoop", "A model with a shell, until it submits an answer"
        ),
    },
    "environment": {
        "docker": Builtin(
            "environments.docker.environment:DockerEnvironment",
            "A container of a Docker or Podman engine for each sandbox",
        ),
        "host_process": Builtin(
            "environments.host_process:HostProcess",
            "Commands run on this machine in a temporary directory; isolation is a parameter",
        ),
    },
    "recipe": {
        "swebench_testbed": Builtin(
            "recipes.swebench:SweBenchTestbed",
            "SWE-bench in official images: the conda environment `testbed` for every command",
        ),
    },
    "analyzer": {
        "empty_output": Builtin(
            "analyzers.empty_output:EmptyOutput", "Empty answers and empty replies"
        ),
        "error_taxonomy": Builtin(
            "analyzers.error_taxonomy:ErrorTaxonomy",
            "Causes of infrastructure failures, and what evaluators say about attempts without success",
        ),
        "latency": Builtin(
            "analyzers.latency:Latency", "Seconds of attempts, phases and slowest steps"
        ),
        "repeated_tool_calls": Builtin(
            "analyzers.repeated_tool_calls:RepeatedToolCalls",
            "Agents that make the same calls again and again",
        ),
        "repetition": Builtin(
            "analyzers.repetition:Repetition", "Text that ends in repeating itself"
        ),
        "token_use": Builtin("analyzers.token_use:TokenUse", "Tokens and calls of attempts"),
        "truncation": Builtin(
            "analyzers.truncation:Truncation", "Answers, replies and outputs that were cut off"
        ),
    },
}

_GROUPS: Final[Mapping[Kind, str]] = {
    "benchmark": "agentcompass.benchmarks",
    "harness": "agentcompass.harnesses",
    "environment": "agentcompass.environments",
    "recipe": "agentcompass.recipes",
    "analyzer": "agentcompass.analyzers",
}

_registered: dict[tuple[Kind, str], AnyComponent] = {}
_of_recipe_dirs: dict[str, list[type[Recipe[Any]]]] = {}
_lock: Final = threading.Lock()


def known(kind: Kind) -> Mapping[str, str]:
    """Return every id of a kind with a one-line description, sorted by id; imports no component.

    Broken plug-ins are listed too: they break only when loaded.
    """
    lines: dict[str, str] = {}
    for name, points in _plugins(kind, tuple(sys.path)).items():
        lines[name] = f"from {' and '.join(_origin(point) for point in points)}"
    with _lock:
        registered = dict(_registered)
    for (its_kind, name), cls in registered.items():
        if its_kind == kind:
            lines[name] = cls.description or lines.get(name, f"from {_place(cls)}")
    lines.update((name, builtin.description) for name, builtin in BUILTINS[kind].items())
    return dict(sorted(lines.items()))


@overload
def load(kind: Literal["benchmark"], name: str) -> type[Benchmark[Any]]: ...
@overload
def load(kind: Literal["harness"], name: str) -> type[Harness[Any]]: ...
@overload
def load(kind: Literal["environment"], name: str) -> type[Environment[Any]]: ...
@overload
def load(kind: Literal["recipe"], name: str) -> type[Recipe[Any]]: ...
@overload
def load(kind: Literal["analyzer"], name: str) -> type[Analyzer[Any]]: ...
@overload
def load(kind: Kind, name: str) -> AnyComponent: ...
def load(kind: Kind, name: str) -> AnyComponent:
    """Return the component class of an id or an import path, imported and checked.

    Raises:
        UnknownComponentError: Nothing has this id.
        ConfigurationError: It cannot be imported, is no proper component of this kind, is registered under an id
            that its class does not have, or two plug-ins claim the id.
    """
    if name in BUILTINS[kind]:
        return _builtin(kind, name)
    if ":" in name:
        return _import(name, kind, None, f"{kind} {name!r}")
    with _lock:
        registered = _registered.get((kind, name))
    points = _plugins(kind, tuple(sys.path)).get(name, ())
    claims = {point.value: f"{point.value} ({_origin(point)})" for point in points}
    if registered is not None:
        claims.setdefault(_place(registered), f"{_place(registered)} (@register)")
    if len(claims) > 1:
        raise ConfigurationError(
            f"two plug-ins claim the {kind} id {name!r}: {' and '.join(sorted(claims.values()))}",
            hint="Uninstall one, or name the one you mean by its import path `package.module:Class`.",
        )
    if registered is not None:
        return registered
    if points:
        label = (
            f"plug-in {points[0].value!r} ({_origin(points[0])}), which provides {kind} {name!r},"
        )
        return _import(points[0].value, kind, name, label)
    raise UnknownComponentError(kind, name, known(kind))


def register(cls: C) -> C:
    """Make a component class known by its `id`; a class decorator. The base class tells the kind.

    Registering a class of the same module and name again replaces it, so that a notebook cell can be run twice.

    Raises:
        ConfigurationError: It is no proper component class, or another class has the id.
    """
    kind = kind_of(cls)
    if kind is None:
        raise ConfigurationError(
            f"{_place(cls)} cannot be registered: it derives from none of "
            f"{', '.join(base.__name__ for base in BASES.values())}"
        )
    _check(cls, kind, None, _place(cls))
    package = cls.__module__.partition(".")[0]
    if package.startswith(RECIPE_DIR_PREFIX):
        if not issubclass(cls, Recipe):
            raise ConfigurationError(
                f"a recipe folder registers recipes only; {_place(cls)} is a {kind}"
            )
        with _lock:
            _of_recipe_dirs.setdefault(package, []).append(cls)
        return cls
    with _lock:
        other = _registered.get((kind, cls.id))
        if cls.id in BUILTINS[kind]:
            raise ConfigurationError(f"{_place(cls)}: {cls.id!r} is the id of a built-in {kind}")
        if other is not None and _place(other) != _place(cls):
            raise ConfigurationError(
                f"two classes claim the {kind} id {cls.id!r}: {_place(other)} and {_place(cls)}"
            )
        _registered[kind, cls.id] = cls
    return cls


def load_recipe_dirs(paths: Sequence[Path]) -> Mapping[str, type[Recipe[Any]]]:
    """Return the recipes of folders by id; see `components.recipes.folders.load_recipe_dirs`."""
    from agentcompass.components.recipes import folders  # noqa: PLC0415  only when a run has such folders

    return folders.load_recipe_dirs(paths)


def take_recipes(package: str) -> tuple[type[Recipe[Any]], ...]:
    """Return, once, what was registered by the modules of a recipe folder imported as `package`."""
    with _lock:
        return tuple(_of_recipe_dirs.pop(package, ()))


@functools.lru_cache(maxsize=32)
def _plugins(
    kind: Kind, _sys_path: tuple[str, ...]
) -> Mapping[str, tuple[importlib.metadata.EntryPoint, ...]]:
    """The entry points of a kind by id; the path is the key since tests and notebooks add to it."""
    found: dict[str, dict[str, importlib.metadata.EntryPoint]] = {}
    for point in _entry_points(_sys_path):
        if point.group == _GROUPS[kind]:
            found.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: tuple(points.values()) for name, points in found.items()}


@functools.lru_cache(maxsize=1)
def _entry_points(_sys_path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Those of all kinds. Every installed package is read for them, which takes long: once, not for each kind."""
    installed = importlib.metadata.entry_points()
    return tuple(point for group in _GROUPS.values() for point in installed.select(group=group))


@functools.cache
def _builtin(kind: Kind, name: str) -> AnyComponent:
    """The class of a built-in: a run asks for it several times, and the check takes long."""
    path = f"agentcompass.components.{BUILTINS[kind][name].path}"
    return _import(path, kind, name, f"{kind} {name!r}")


def _import(path: str, kind: Kind, name: str | None, label: str) -> AnyComponent:
    module_name, _, qualname = path.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
        for part in qualname.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as exc:  # foreign code: whatever it raises breaks only itself
        raise ConfigurationError(
            f"{label} cannot be loaded: {type(exc).__name__}: {exc}",
            hint=_import_hint(exc, module_name),
        ) from exc
    _check(value, kind, name, label)
    return cast("AnyComponent", value)


def _import_hint(exc: BaseException, module_name: str) -> str | None:
    if isinstance(exc, ModuleNotFoundError) and exc.name == module_name.partition(".")[0]:
        return f"Install the package of {exc.name!r}, or put its folder on PYTHONPATH."
    return None


def _check(cls: object, kind: Kind, name: str | None, label: str) -> None:
    actual = kind_of(cls)
    if actual != kind:
        what = f"is a {actual}" if actual else f"is no subclass of {BASES[kind].__name__}"
        raise ConfigurationError(f"{label} cannot be used: {_place(cls)} {what}, not a {kind}")
    component = cast("AnyComponent", cls)
    faults = faults_of(component, kind)
    if not faults and name is not None and component.id != name:
        faults.append(f"has the id {component.id!r}")
    if faults:
        raise ConfigurationError(f"{label} cannot be used: {_place(cls)} {'; '.join(faults)}")


def _place(cls: object) -> str:
    return f"{getattr(cls, '__module__', '?')}:{getattr(cls, '__qualname__', repr(cls))}"


def _origin(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
