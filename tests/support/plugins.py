"""Real plug-ins for tests: packages with entry points in a folder of their own, without pip."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path


def write_distribution(
    folder: Path,
    name: str,
    *,
    modules: Mapping[str, str],
    entry_points: str = "",
    requires: tuple[str, ...] = (),
) -> None:
    """Lay out a package as an installer would: modules, and metadata with its entry points."""
    folder.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """Put folders on the path; afterwards the modules that came from them are forgotten."""
    before = set(sys.modules)
    path = list(sys.path)
    sys.path[:0] = map(str, folders)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(tuple(map(str, folders))):
                del sys.modules[name]


HARNESS = """
    from agentcompass.components.base import AgentOutcome, Harness, NoParams

    class Mine(Harness[NoParams]):
        id = "{id}"
        needs_model = False

        async def run(self, task_input, session, model, emit):
            return AgentOutcome(answer="mine")
"""
