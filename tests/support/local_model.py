"""Local models for tests: the real one, and some whose package does what a test needs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import attrs

from agentcompass.components.models.catalog import LOCAL_MODELS

GEMMA = LOCAL_MODELS["local/gemma-3-270m"]


def fake_model(folder: Path, source: str, *, package: str = "fake_weights"):
    """A model whose package of weights is `source`, in a folder to be put on the path."""
    head = f"EXPECTED_SHA256 = {GEMMA.sha256!r}\n"
    (folder / f"{package}.py").write_text(head + textwrap.dedent(source))
    return attrs.evolve(GEMMA, weights_package=package)


def servers_of(pid: int) -> list[int]:
    """The processes that serve local models for a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"local_child.py" in command:
            found.append(int(entry.name))
    return found
