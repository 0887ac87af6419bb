"""Installing packages into the running interpreter: one installation at a time over all processes, and errors that say why.

Used where a user has allowed it. What a running process has loaded cannot be replaced in it: then it says so, and the
next start has it all.
"""

from __future__ import annotations

import fcntl
import functools
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
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.errors import PreflightError, counted

INSTALL_TIMEOUT_SECONDS: Final = 900.0
PROGRESS_SECONDS: Final = 5.0
"""Between two lines about what the installer does."""
END_SECONDS: Final = 5.0
"""What an installer that is interrupted has for removing what it has left half done."""
_TAIL: Final = 2000
_LINE: Final = 160
"""Characters of an installer's words that people are told: when it has failed, and of one line on the way."""
_KEPT_BYTES: Final = 64 * 1024

_PROGRESS: Final = re.compile(
    r"\s*(Collecting|Downloading|Building|Installing|Resolved|Prepared|Installed|Downloaded)\b"
)
_UNREACHABLE: Final = (
    "name resolution|Name or service not known|Max retries exceeded|NewConnectionError|ConnectTimeout|ReadTimeout"
    "|Connection refused|Connection reset|Network is unreachable|ProxyError|SSLError"
    "|dns error|error sending request|Failed to fetch|client error"
)
_OTHER_INDEX: Final = "PIP_INDEX_URL (for uv UV_INDEX_URL) names another one"
_OWN_PLACE: Final = "a virtual environment of your own (`python -m venv`)"
_CAUSES: Final[Mapping[str, str]] = {
    "externally[- ]managed": f"This Python belongs to the system (PEP 668): use {_OWN_PLACE}.",
    "No space left|quota exceeded": "Make room where packages and temporary files are.",
    "Permission denied|Read-only file system": f"Its packages cannot be written: use {_OWN_PLACE}.",
    _UNREACHABLE: f"The package index cannot be reached. Is there a network? {_OTHER_INDEX}, HTTPS_PROXY a proxy.",
    "No matching distribution|was not found|no version": (
        f"The package index has it not, or does not answer; {_OTHER_INDEX}."
    ),
    "ResolutionImpossible|conflict|No solution found": (
        f"It does not go together with what is installed here: use {_OWN_PLACE}."
    ),
}
"""By what an installer says, the first that fits: what a user can do."""


async def install(
    requirements: Sequence[str],
    *,
    keeping: Sequence[str],
    is_done: Callable[[], bool],
    purpose: str,
    tell: Callable[[str], None],
) -> None:
    """Install requirements into the running interpreter, with its pip, or with uv where there is no pip.

    An installation that is cancelled or takes too long is interrupted, and killed if that is no help.

    Args:
        requirements: What to install.
        keeping: Requirements that whatever is installed has to leave satisfied; they are not installed themselves.
        is_done: Asked before, when no other process installs any more: that may have done it.
        purpose: Who needs it, for the notes.
        tell: Takes a line for people now and then.

    Raises:
        PreflightError: It cannot be done, or replaced what this process has loaded.
    """
    _check_interpreter(requirements)
    async with _only_one_installs(tell):
        importlib.invalidate_caches()
        if is_done():
            return
        tell(f"installing {', '.join(requirements)} for {purpose}")
        before = await trio.to_thread.run_sync(_installed)
        with _constraints(keeping) as file:
            await _run(install_command(requirements, constraints=file), tell)
        importlib.invalidate_caches()
        after = await trio.to_thread.run_sync(_installed)
        new = len(after.keys() - before.keys())
        tell(f"installed {', '.join(requirements)}, with {counted(new, 'new package')}")
        await trio.to_thread.run_sync(_check_loaded, before, after)


def install_command(requirements: Sequence[str], *, constraints: str | None = None) -> list[str]:
    """Return the program and arguments that install into the running interpreter: pip, or uv where pip is absent.

    Raises:
        PreflightError: Neither is there.
    """
    if importlib.util.find_spec("pip") is not None:
        # -P: what the working directory has is no module of ours
        command = [sys.executable, "-P", "-m", "pip", "install"]
        command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    elif importlib.util.find_spec("uv") is not None:
        command = [sys.executable, "-P", "-m", "uv", "pip", "install", "--python", sys.executable]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise PreflightError(
            f"neither pip nor uv is there to install {', '.join(requirements)} into {sys.executable}",
            hint="Install pip (`python -m ensurepip`) or uv.",
        )
    return [*command, *(["--constraint", constraints] if constraints else []), *requirements]


def _check_interpreter(requirements: Sequence[str]) -> None:
    """Refuse beforehand where pip would quietly install somewhere else, which this process does not see."""
    place = _packages_dir()
    if not os.access(place, os.W_OK | os.X_OK):
        raise PreflightError(
            f"{', '.join(requirements)} cannot be installed: {place} cannot be written",
            hint=f"Use {_OWN_PLACE}, or let its owner install it.",
        )


def _packages_dir() -> Path:
    """Where packages are installed, or will be: the nearest directory that exists."""
    place = Path(sysconfig.get_path("purelib"))
    return next(folder for folder in (place, *place.parents) if folder.is_dir())


@asynccontextmanager
async def _only_one_installs(tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Lock the directory itself: all who install into it meet there, and nothing is left of it."""
    descriptor = os.open(_packages_dir(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    has_told = False
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not has_told:
                    tell(
                        "another process is installing packages for this Python; waiting for its end"
                    )
                    has_told = True
                await trio.sleep(0.1)
            except OSError:
                break  # a file system without locks
            else:
                break
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _constraints(requirements: Sequence[str]) -> Iterator[str | None]:
    """A file of constraints, as installers read them."""
    if not requirements:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", prefix="agentcompass-", suffix=".txt") as file:
        file.write("\n".join([*requirements, ""]))
        file.flush()
        yield file.name


async def _run(command: list[str], tell: Callable[[str], None]) -> None:
    output = _Output(tell)
    process: trio.Process | None = None
    with trio.move_on_after(INSTALL_TIMEOUT_SECONDS) as limit:
        async with trio.open_nursery() as nursery:
            start = functools.partial(
                trio.run_process,
                command,
                stdin=b"",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PIP_USER": "0"},
                check=False,
                start_new_session=True,
                deliver_cancel=_interrupt,
            )
            process = await nursery.start(start)
            assert process.stdout is not None
            async for data in process.stdout:
                output.add(bytes(data))
    shown = shlex.join(command)
    if limit.cancelled_caught or process is None:
        raise PreflightError(f"`{shown}` was not done after {INSTALL_TIMEOUT_SECONDS:g} s")
    if process.returncode != 0:
        text = output.text()
        hints = (hint for cause, hint in _CAUSES.items() if re.search(cause, text, re.IGNORECASE))
        raise PreflightError(
            f"`{shown}` failed with exit code {process.returncode}:\n{text[-_TAIL:]}",
            hint=next(hints, None),
        )


@final
class _Output:
    """The end of what an installer has said; of its progress people are told a line now and then."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._tail = bytearray()
        self._told_at = trio.current_time()

    def add(self, data: bytes) -> None:
        lines = data.decode(errors="replace").splitlines()
        self._tail += data
        del self._tail[:-_KEPT_BYTES]
        now = trio.current_time()
        told = [line.strip() for line in lines if _PROGRESS.match(line)]
        if told and now >= self._told_at + PROGRESS_SECONDS:
            self._told_at = now
            self._tell(told[-1][:_LINE])

    def text(self) -> str:
        return self._tail.decode(errors="replace").strip()


async def _interrupt(process: trio.Process) -> None:
    """End an installer as a person would, so that it cleans up, and then for sure."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with trio.move_on_after(END_SECONDS):
        await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _installed() -> Mapping[str, str]:
    """The version of each package that is installed, by its name in lower case."""
    found = ((each.name, each.version) for each in importlib.metadata.distributions())
    # of one that an interrupted installer has left there may be no more than a folder
    return {name.lower(): version for name, version in found if name}


def _check_loaded(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse to go on with two versions of one package in this process.

    Raises:
        PreflightError: Something that was loaded has been replaced.
    """
    changed = {name for name, version in before.items() if after.get(name) != version}
    if not changed:
        return
    providers = importlib.metadata.packages_distributions()
    loaded = {name.partition(".")[0] for name in list(sys.modules)}
    names = {each.lower() for module in loaded for each in providers.get(module, ())}
    if replaced := sorted(changed & names):
        words = [f"{name} {before[name]} by {after.get(name, 'nothing')}" for name in replaced]
        raise PreflightError(
            f"it is installed now, and replaced what this process has loaded: {', '.join(words)}",
            hint="Run the same command again.",
        )
