"""Where a program is published, and for which machines. Data only."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.datasets.npm import NpmPackage

Machine: TypeAlias = str
"""Processor and C library, as npm packages name them: `linux-x64`, `linux-arm64-musl`, ..."""

_PROCESSORS: Final[Mapping[str, str]] = {
    "x86_64": "x64",
    "amd64": "x64",
    "aarch64": "arm64",
    "arm64": "arm64",
}


def machine_of(processor: str, *, is_musl: bool = False) -> Machine:
    """Return the name of a machine.

    Args:
        processor: As `uname -m` says.
        is_musl: Programs there are built for the C library musl.
    """
    name = f"linux-{_PROCESSORS.get(processor.lower(), processor)}"
    return f"{name}-musl" if is_musl else name


def this_machine() -> Machine:
    """Return the name of the usual Linux machine with the processor of this one."""
    return machine_of(platform.machine())


@frozen(kw_only=True)
class Build:
    """A program built for one machine."""

    package: str
    """Name of its npm package."""
    version_suffix: str = ""
    """Added to the program's version."""
    directory: str = "package"
    """See `NpmPackage`."""


@frozen(kw_only=True)
class Published:
    """A program as npm has it."""

    name: str
    """For people and for paths."""
    command: str
    """How it is called where it is installed."""
    executable: str
    """Its path in its directory."""
    builds: Mapping[Machine, Build]
    omit: tuple[str, ...] = ()
    """Directories that a run without a terminal needs not."""
    checksums: Mapping[tuple[str, Machine], str] = attrs.field(factory=dict)
    """By version and machine, of those that are pinned: see `NpmPackage.integrity`."""

    def package(self, version: str, machine: Machine) -> NpmPackage | None:
        """Return the package of a version for a machine; None if there is none."""
        build = self.builds.get(machine)
        if build is None:
            return None
        return NpmPackage(
            name=build.package,
            version=f"{version}{build.version_suffix}",
            integrity=self.checksums.get((version, machine)),
            directory=build.directory,
            omit=self.omit,
        )
