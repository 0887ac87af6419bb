"""The real program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """Runs `agentcompass` in a folder, with a home of its own."""

    def __init__(self, folder: Path):
        self.folder = folder

    def environment(self, **environ):
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        cover = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        return {**kept, **cover, "HOME": str(self.folder), "PYTHONPATH": str(ROOT), **environ}

    def arguments(self, *arguments):
        return [sys.executable, "-m", "agentcompass.cli", *arguments]

    def start(self, *arguments, **options):
        environ = self.environment(**options.pop("environ", {}))
        return subprocess.Popen(
            self.arguments(*arguments),
            cwd=self.folder,
            env=environ,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
        )

    def __call__(self, *arguments, stdin=None, **environ):
        return subprocess.run(
            self.arguments(*arguments),
            cwd=self.folder,
            env=self.environment(**environ),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            encoding="utf-8",
            timeout=60,
        )
