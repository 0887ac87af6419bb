"""What the agent is told and what it may use: the configurations that its package publishes, and what a user changes of them.

The fields have the names of the package's own configuration files, so that such a file can be used as it is.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, PreflightError, did_you_mean
from agentcompass.spec.codec import structure
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat
from agentcompass.spec.tree import Origin, Written, from_python, report
from agentcompass.spec.yaml import load_file

SWEBENCH: Final = "swebench"
PACKAGE: Final = "minisweagent"
PUBLISHED: Final[Mapping[str, str]] = {
    SWEBENCH: "config/benchmarks/swebench.yaml",
    "mini": "config/mini.yaml",
}
"""Files of the package by name: those whose agent calls tools."""
BASH_ENV: Final = "BASH_ENV"
"""Names the file that bash reads first (bash(1))."""
OWN: Final[Mapping[str, str]] = {"answer": "answer.yaml"}
"""Files beside this one."""

_NOT_USED: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": ("agent_class", "mode", "confirm_exit", "whitelist_actions", "output_path"),
    "environment": (
        *(
            "environment_class",
            "image",
            "executable",
            "run_args",
            "container_timeout",
            "pull_timeout",
        ),
    ),
    "model": ("model_name", "model_class", "cost_tracking", "litellm_model_registry"),
    "model.model_kwargs": ("drop_params",),
}
"""What configuration files of the package say beside, and what a run here says elsewhere or has no use for."""

CacheControl: TypeAlias = Literal["default_end", "none"]


@frozen(kw_only=True)
class AgentPart:
    """The section `agent`. In all sections None means that nothing is said."""

    system_template: str | None = None
    """Jinja template of the system message."""
    instance_template: str | None = None
    """Jinja template of the first message; `task` is what the task says."""
    step_limit: NonNegativeInt | None = None
    """Calls of the model after which it is stopped; 0 means no limit."""
    cost_limit: NonNegativeFloat | None = None
    """US dollars after which it is stopped; 0 means no limit."""
    wall_time_limit_seconds: NonNegativeInt | None = None
    """Time after which no further call is made; 0 means no limit."""
    max_consecutive_format_errors: NonNegativeInt | None = None
    """Replies in a row without a proper call after which it is stopped; 0 means no limit."""


@frozen(kw_only=True)
class EnvironmentPart:
    """The section `environment`."""

    cwd: str | None = None
    """Where commands run; None: in the sandbox's work directory."""
    timeout: PositiveFloat | None = None
    """Seconds that one command may take."""
    interpreter: tuple[str, ...] | None = None
    """Program and first arguments of each command; the command line itself comes last."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables of each command."""


@frozen(kw_only=True)
class ModelKwargs:
    """What goes into each request; other parameters are the model's."""

    parallel_tool_calls: bool | None = None
    """Whether a reply may have several calls."""


@frozen(kw_only=True)
class ModelPart:
    """The section `model`."""

    observation_template: str | None = None
    """Jinja template of what the model is told about a command; `output` has `output`, `returncode`, `exception_info`."""
    format_error_template: str | None = None
    """Jinja template of what the model is told about a reply without a proper call."""
    set_cache_control: CacheControl | None = None
    """Whether the last message is marked for the endpoint's cache; None: with the protocol `anthropic`."""
    model_kwargs: ModelKwargs = attrs.field(factory=ModelKwargs)
    """What goes into each request."""


@frozen(kw_only=True)
class Config:
    """A configuration, or what is changed of one."""

    agent: AgentPart = attrs.field(factory=AgentPart)
    """Prompts and limits."""
    environment: EnvironmentPart = attrs.field(factory=EnvironmentPart)
    """How commands are run."""
    model: ModelPart = attrs.field(factory=ModelPart)
    """What the model is told about commands and mistakes."""


def is_file(config: str) -> bool:
    """Whether a configuration is given by its path and not by its name."""
    return "/" in config or config.endswith((".yaml", ".yml", ".json"))


def check_name(config: str) -> None:
    """Check that a configuration given by its name is known.

    Raises:
        ConfigurationError: It is not.
    """
    known = [*PUBLISHED, *OWN]
    if config not in known:
        raise ConfigurationError(
            f"the harness mini_swe_agent has no configuration {config!r}{did_you_mean(config, known)}",
            hint=f"Name one of {', '.join(known)}, or give the path of a file (./my.yaml).",
        )


def from_mapping(given: Mapping[str, Any]) -> Config:
    """Return what a mapping says, as a parameter of the harness.

    Raises:
        ConfigurationError: Its keys or values are no configuration's; the message names each.
    """
    problems = Problems()
    origin = Origin(layer="argument", where="harness mini_swe_agent", path="config")
    return _structured(from_python(given, origin, problems), problems)


@frozen(kw_only=True)
class Layers:
    """A configuration as its package publishes it, and what is said over it."""

    published: Config
    changes: tuple[Config, ...] = ()
    """Lowest first."""

    def in_sandbox(self, workdir: str) -> Config:
        """Return what counts in a sandbox.

        A published one is made for certain images. Elsewhere, the directory of these is another, and the start-up file that
        their shells read is not there, or somebody else's.

        Args:
            workdir: The sandbox's work directory.
        """
        base = self.published
        place = base.environment
        if place.cwd not in (None, workdir):
            env = {name: value for name, value in place.env.items() if name != BASH_ENV}
            base = attrs.evolve(base, environment=attrs.evolve(place, cwd=None, env=env))
        return functools.reduce(laid_over, self.changes, base)


def read_layers(given: str | Config, changes: Config) -> Layers:
    """Read a configuration.

    Args:
        given: The name or the file of a configuration, or changes of the one for SWE-bench. What a file does not say is as
            in that one.
        changes: Laid over it.

    Raises:
        ConfigurationError: There is no such configuration, or it is wrong.
        PreflightError: The package has vanished.
    """
    if isinstance(given, str) and not is_file(given):
        return Layers(published=_published(given), changes=(changes,))
    said = read_file(Path(given)) if isinstance(given, str) else given
    return Layers(published=_published(SWEBENCH), changes=(said, changes))


def laid_over(lower: Any, upper: Any) -> Any:
    """Return a section over another of its class: what it says counts; of mappings, each key by itself."""
    changes = {}
    for field in attrs.fields(type(lower)):
        below, above = getattr(lower, field.name), getattr(upper, field.name)
        if attrs.has(type(above)):
            changes[field.name] = laid_over(below, above)
        elif isinstance(above, Mapping):
            changes[field.name] = {**below, **above}
        elif above is not None:
            changes[field.name] = above
    return attrs.evolve(lower, **changes)


def _published(name: str) -> Config:
    if name in OWN:
        return read_file(Path(__file__).with_name(OWN[name]))
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package.submodule_search_locations or ()) if package else ():
        return read_file(Path(folder, PUBLISHED[name]))
    raise PreflightError("the package mini-swe-agent is not there", hint="Install it again.")


def read_file(file: Path) -> Config:
    """Read a configuration file of the package, or one like it.

    Raises:
        ConfigurationError: It cannot be read, or is no configuration; the message has the place.
    """
    problems = Problems()
    written = load_file(file, "configuration of mini_swe_agent", problems)
    problems.raise_if_any()
    assert written is not None
    return _structured(_used(written), problems)


def _structured(written: Written, problems: Problems) -> Config:
    config = structure(written, Config, problems)
    if config is not None:
        place = config.environment
        if place.interpreter == ():
            report(problems, written, "must name a program", "environment", "interpreter")
        for name in place.env:
            if not name or "=" in name:
                report(problems, written, "is no name of a variable", "environment", "env", name)
    problems.raise_if_any()
    assert config is not None
    return config


def _used(written: Written, path: str = "") -> Written:
    """What is left of a file of the package without what is said elsewhere here."""
    node = written.without(*_NOT_USED.get(path, ()))
    if not node.is_mapping:
        return node
    items = {key: _used(item, f"{path}.{key}".lstrip(".")) for key, item in node.items()}
    return attrs.evolve(node, data=items)
