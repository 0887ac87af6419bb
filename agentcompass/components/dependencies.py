"""Optional extras: what a component needs beyond the package's own dependencies, and having it installed on request.

What an extra consists of is read from the metadata of the installed package, so that it stands in one place
(`pyproject.toml`). Installed are those requirements, never "this package with its extra".
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from agentcompass.components.base import Component, LoadContext
from agentcompass.components.installing import install
from agentcompass.errors import PreflightError

DISTRIBUTION: Final = "agentcompass"

_OF_EXTRA: Final = re.compile(
    r"""^(?P<requirement>[^;]+?)\s*;\s*
        (?:(?P<marker>.+?)\s+and\s+)?
        extra\s*==\s*(?P<quote>['"])(?P<extra>[^'"]+)(?P=quote)\s*$""",
    re.VERBOSE,
)
_PINNED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*==\s*(?P<version>[^\s,;*]+)")


def requirements_of(extra: str, distribution: str = DISTRIBUTION) -> tuple[str, ...]:
    """Return what an extra of a package consists of, as requirements an installer takes.

    Raises:
        PreflightError: The package's metadata is missing or knows no such extra.
    """
    found = [
        f"{match['requirement']}; {match['marker']}" if match["marker"] else match["requirement"]
        for match in map(_OF_EXTRA.match, _requires(distribution))
        if match and _same_name(match["extra"], extra)
    ]
    if not found:
        raise PreflightError(
            f"the extra {extra!r} is needed, and the installed metadata of {distribution!r} does not say what it is",
            hint=f"Install what its `pyproject.toml` lists under the optional dependencies {extra!r}.",
        )
    return tuple(found)


def is_there(component: Component[Any] | type[Component[Any]]) -> bool:
    """Whether what a component needs is installed, as far as versions are pinned in those; it is not imported."""
    if component.extra is None:
        return True
    if any(importlib.util.find_spec(module) is None for module in component.requires):
        return False
    try:
        requirements = requirements_of(component.extra, _distribution_of(component))
    except PreflightError:
        # a checkout on the path: what it needs is there, and nobody knows in which version it should be
        return bool(component.requires)
    return not any(map(_is_missing, requirements))


def needs(kind: str, component: Component[Any]) -> str:
    """Return the sentence that a component needs its extra; errors as of `requirements_of`."""
    requirements = requirements_of(component.extra or "", _distribution_of(component))
    return f"the {kind} {component.id!r} needs {_listed(requirements)}"


async def ensure_there(kind: str, component: Component[Any], ctx: LoadContext) -> None:
    """Make sure that what a component needs is installed; see `ensure_extra`.

    Args:
        kind: Of component, for messages: `harness`.
        component: Any.
        ctx: As for `ensure_extra`.
    """
    if component.extra is not None:
        await ensure_extra(
            component.extra,
            is_present=functools.partial(is_there, component),
            purpose=f"the {kind} {component.id!r}",
            ctx=ctx,
            distribution=_distribution_of(component),
        )


async def ensure_extra(
    extra: str,
    *,
    is_present: Callable[[], bool],
    purpose: str,
    ctx: LoadContext,
    distribution: str = DISTRIBUTION,
) -> None:
    """Make sure that what an extra brings is there, installing it if the user allowed that.

    Args:
        extra: Its name in the package's metadata.
        is_present: Tells whether it is there; asked again after the installation.
        purpose: Who needs it, as the subject of a sentence: `the benchmark 'humaneval'`.
        ctx: Permission, and notes about progress.
        distribution: The package whose extra it is.

    Raises:
        PreflightError: It is not there and may not be installed, or the installation failed or took too long.
    """
    if is_present():
        return
    requirements = requirements_of(extra, distribution)
    command = f"pip install '{distribution}[{extra}]'"
    if not ctx.auto_install_dependencies:
        raise PreflightError(
            f"{purpose} needs {_listed(requirements)}",
            hint=f"Run `{command}`, or allow it with auto_install_dependencies (--auto-install-dependencies).",
        )
    await install(
        requirements,
        keeping=_own_requirements(distribution),
        is_done=is_present,
        purpose=purpose,
        tell=ctx.note,
    )
    if not is_present():
        raise PreflightError(
            f"{purpose} still lacks what {', '.join(requirements)} should have brought",
            hint=f"See what `{command}` says.",
        )


def _listed(requirements: Iterable[str]) -> str:
    """Requirements, and of those that are there in another version, in which."""
    words = []
    for requirement in requirements:
        installed = _installed_version(requirement)
        is_other = installed is not None and _is_missing(requirement)
        words.append(f"{requirement} (and has {installed})" if is_other else requirement)
    return ", ".join(words)


def _is_missing(requirement: str) -> bool:
    """Whether what is pinned is there in another version or not at all; of other requirements nothing is said."""
    pinned = _PINNED.fullmatch(requirement)
    return pinned is not None and _installed_version(requirement) != pinned["version"]


def _installed_version(requirement: str) -> str | None:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    try:
        return importlib.metadata.version(name[0]) if name else None
    except importlib.metadata.PackageNotFoundError:
        return None


def _own_requirements(distribution: str) -> tuple[str, ...]:
    """What this package and that of a plug-in need themselves, whatever is installed beside them."""
    names = dict.fromkeys((DISTRIBUTION, distribution))
    lines = [line for name in names for line in _requires(name)]
    return tuple(line for line in lines if _OF_EXTRA.match(line) is None)


def _requires(distribution: str) -> list[str]:
    try:
        return importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _distribution_of(component: Component[Any] | type[Component[Any]]) -> str:
    """The package that a component is of: an extra of a plug-in is in its own metadata."""
    cls = component if isinstance(component, type) else type(component)
    module = cls.__module__.partition(".")[0]
    try:
        return importlib.metadata.distribution(module).name
    except importlib.metadata.PackageNotFoundError:
        # of another name than its module: all packages are read for that, which takes a second
        return importlib.metadata.packages_distributions().get(module, [module])[0]


def _same_name(one: str, other: str) -> bool:
    """Whether two names of extras are one when normalized (PEP 685)."""
    return re.sub(r"[-_.]+", "-", one).lower() == re.sub(r"[-_.]+", "-", other).lower()
