"""A container's control groups, seen from the machine it runs on: its processes and its counters. Blocking functions.

Both generations of the interface, and both at once, as machines mount them.

Source: Linux, Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

from agentcompass.data import frozen

ROOT: Final = Path("/sys/fs/cgroup")


@final
@frozen
class Cgroups:
    """Where the control groups of one container are."""

    directories: Mapping[str, Path]
    """By controller (`memory`, `cpu`, `pids`, ...); the unified one as `""`."""

    @classmethod
    def of(cls, pid: int, container: str) -> Cgroups | None:
        """Find them.

        Args:
            pid: Of a process in the container, as this machine counts.
            container: Its id, which is in the groups' names; so another machine's pid is not mistaken for ours.

        Returns:
            None if they are not to be seen from here.
        """
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        found = {}
        for line in lines:
            _, names, place = line.split(":", 2)
            if container in place:
                for name in names.removeprefix("name=").split(","):
                    directory = _mount(name) / place.removeprefix("/")
                    if directory.is_dir():
                        found[name] = directory
        return cls(found) if found else None

    def pids(self) -> set[int]:
        """Return the processes of the container, zombies included."""
        directory = next(iter(self.directories.values()))
        pids: set[int] = set()
        for file in (directory / "cgroup.procs", *directory.rglob("*/cgroup.procs")):
            try:
                pids.update(map(int, file.read_text(encoding="ascii").split()))
            except OSError:
                continue  # removed meanwhile, or of a kind that has none
        return pids

    def number(self, *places: tuple[str, str]) -> int | None:
        """Return the content of the first file that is there and holds a number; each is a controller and a name."""
        for controller, name in places:
            text = self._read(controller, name).strip()
            if text.isdecimal():
                return int(text)
        return None

    def table(self, *places: tuple[str, str]) -> Mapping[str, int]:
        """Return the named numbers of the first file that has any; each is a controller and a name."""
        for controller, name in places:
            if found := parse_table(self._read(controller, name)):
                return found
        return {}

    def _read(self, controller: str, name: str) -> str:
        directory = self.directories.get(controller)
        try:
            return (directory / name).read_text(encoding="ascii") if directory else ""
        except OSError:
            return ""


def parse_table(text: str) -> dict[str, int]:
    """Read lines of a name and a number."""
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdecimal():
            yield name, int(value)


def _mount(name: str) -> Path:
    if name:
        return ROOT / name
    return ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "unified"
