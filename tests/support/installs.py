"""An environment of its own for installations with the real pip, and a package index on 127.0.0.1."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Self

from support.commandline import ROOT


class Index:
    """A simple package index (PEP 503): a directory with one of wheels for each name, served. Use as a context manager.

    Attributes:
        gate: The answers wait until it is set.
        asked: Set by the first request.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate, self.asked = threading.Event(), threading.Event()
        self.gate.set()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def _handler(self):
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                index.asked.set()
                index.gate.wait(60)
                super().do_GET()

            def log_message(self, *_args):
                """Say nothing."""

        return functools.partial(Handler, directory=str(index.folder))

    def add(self, name: str, version: str, *, requires: tuple[str, ...] = ()) -> None:
        """Put a package there, with one module of its name."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in requires]
        files = {
            f"{module}.py": f"version = {version!r}\n",
            f"{info}/METADATA": "\n".join([*lines, ""]),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
        with zipfile.ZipFile(place / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
            for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
                wheel.writestr(path, text)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


def _digest(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


class Venv:
    """A virtual environment with pip, that has this package and what it needs by reference to where they are."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python3.*/site-packages")
        paths = [str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]
        (self.site / "here.pth").write_text("\n".join([*paths, ""]))

    def start(
        self, *arguments: str, index: str, retries: int = 0, **options
    ) -> subprocess.Popen[str]:
        """Run Python, whose pip knows no index but one."""
        environ = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.site), "PIP_INDEX_URL": index, "PIP_RETRIES": str(retries),
            "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        return subprocess.Popen(
            [self.python, *arguments],
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )

    def run(self, *arguments: str, index: str, **options) -> tuple[int, str]:
        """Run it to its end; return exit code and output."""
        process = self.start(*arguments, index=index, **options)
        output, _ = process.communicate(timeout=100)
        return process.returncode, output
