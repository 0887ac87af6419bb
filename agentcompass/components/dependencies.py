"""Optional extras: what a component needs beyond the package's own dependencies, and installing it on request.

What an extra consists of is read from the metadata of the installed package, so that it stands in one place
(`pyproject.toml`). Installed are those requirements, never "this package with its extra".
"""

from __future__ import annotations

import fcntl
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from agentcompass.components.base import LoadContext
from agentcompass.errors import PreflightError

DISTRIBUTION: Final = "agentcompass"
INSTALL_TIMEOUT_SECONDS: Final = 900.0
_TAIL: Final = 2000
_LOCK_FILE: Final = "install.lock"

_OF_EXTRA: Final = re.compile(
    r"""^(?P<requirement>[^;]+?)\s*;\s*
        (?:(?P<marker>.+?)\s+and\s+)?
        extra\s*==\s*(?P<quote>['"])(?P<extra>[^'"]+)(?P=quote)\s*$""",
    re.VERBOSE,
)


def requirements_of(extra: str) -> tuple[str, ...]:
    """Return what an extra of this package consists of, as requirements an installer takes.

    Raises:
        PreflightError: The package's metadata is missing or knows no such extra.
    """
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        lines = []
    found = [
        f"{match['requirement']}; {match['marker']}" if match["marker"] else match["requirement"]
        for match in map(_OF_EXTRA.match, lines)
        if match and match["extra"] == extra
    ]
    if not found:
        raise PreflightError(
            f"the extra {extra!r} is needed, and the installed metadata of this package does not say what it is",
            hint=f"Install what `pyproject.toml` lists under the optional dependencies {extra!r}.",
        )
    return tuple(found)


def install_command(requirements: tuple[str, ...]) -> list[str]:
    """Return the program and arguments that install into the running interpreter: pip, or uv where pip is absent.

    Raises:
        PreflightError: Neither is there.
    """
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        return [*pip, *requirements]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *requirements]
    raise PreflightError(
        f"neither pip nor uv is there to install {', '.join(requirements)} into {sys.executable}",
        hint="Install pip (`python -m ensurepip`) or uv.",
    )


async def ensure_extra(
    extra: str, *, is_present: Callable[[], bool], purpose: str, ctx: LoadContext
) -> None:
    """Make sure that what an extra brings is there, installing it if the user allowed that.

    Args:
        extra: Its name in the package's metadata.
        is_present: Tells whether it is there; asked again after the installation.
        purpose: Who needs it, as the subject of a sentence: `the benchmark 'humaneval'`.
        ctx: Permission, notes, and the folder of the lock that keeps two installations apart.

    Raises:
        PreflightError: It is not there and may not be installed, or the installation failed or took too long.
    """
    if is_present():
        return
    requirements = requirements_of(extra)
    if not ctx.auto_install_dependencies:
        command = shlex.join(["python", "-m", "pip", "install", *requirements])
        raise PreflightError(
            f"{purpose} needs {', '.join(requirements)}, which is not installed in {sys.executable}",
            hint=f"Run `{command}`, or allow it with auto_install_dependencies.",
        )
    async with _only_one_installs(ctx.data_dir / _LOCK_FILE):
        if not is_present():
            ctx.note(f"installing {', '.join(requirements)} for {purpose}")
            await _install(install_command(requirements))
            importlib.invalidate_caches()
    if not is_present():
        raise PreflightError(
            f"{purpose} still lacks what {', '.join(requirements)} should have brought"
        )


@asynccontextmanager
async def _only_one_installs(lock_file: Path) -> AsyncIterator[None]:
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        file = lock_file.open("w")
    except OSError as exc:
        raise PreflightError(f"the data directory cannot be used: {exc}") from exc
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await trio.sleep(0.1)
            except OSError:
                break  # a file system without locks
            else:
                break
        yield


async def _install(command: list[str]) -> None:
    with trio.move_on_after(INSTALL_TIMEOUT_SECONDS) as scope:
        done = await trio.run_process(
            command,
            stdin=b"",
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
            start_new_session=True,
            deliver_cancel=_kill_group,
        )
    shown = shlex.join(command)
    if scope.cancelled_caught:
        raise PreflightError(f"`{shown}` was not done after {INSTALL_TIMEOUT_SECONDS:g} s")
    if done.returncode != 0:
        tail = done.stdout.decode(errors="replace").strip()[-_TAIL:]
        raise PreflightError(f"`{shown}` failed with exit code {done.returncode}:\n{tail}")


async def _kill_group(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
