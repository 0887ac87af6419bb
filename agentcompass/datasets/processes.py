"""Running git: a child process that asks nobody, shows its progress, holds no password, and ends with its caller."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, final
from urllib.parse import unquote, urlsplit

import trio

from agentcompass.datasets.batch import Progress
from agentcompass.datasets.sources import without_password
from agentcompass.errors import PreflightError

_TAIL_BYTES: Final = 4000
_END_SECONDS: Final = 5.0
_REPOSITORY_VARIABLES: Final = frozenset(
    {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES", "GIT_ASKPASS", "SSH_ASKPASS",
        "GIT_SHALLOW_FILE", "GIT_TEMPLATE_DIR", "GIT_QUARANTINE_PATH", "GIT_CONFIG_PARAMETERS",
    }
)  # fmt: skip
"""Of a git that may have started us, such as one that runs a hook; and programs that open windows."""
_CONFIG: Final = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.autocrlf", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    # what git-lfs keeps is got without it, also where it is installed
    ("filter.lfs.smudge", ""),
    ("filter.lfs.process", ""),
    ("filter.lfs.required", "false"),
    # a transfer below 1 kB/s for a minute is given up
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
)
_HELPER: Final = (
    "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' "
    '"$AGENTCOMPASS_GIT_USER" "$AGENTCOMPASS_GIT_PASSWORD"; }; f'
)
_SSH: Final = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"
_PROGRESS: Final = re.compile(rb"(?:remote: )?([A-Z][a-z]+ [a-z]+:\s+\d+%[^\r\n]*)")


@final
class Git:
    """Runs git for one repository that is fetched from.

    Args:
        url: Of the other repository; a user and password in it are handed over through the environment.
        directory: Of our own, in which commands run; its parent exists.
        tell: Takes a line for people now and then.

    Raises:
        PreflightError: There is no git.
    """

    def __init__(self, url: str, directory: Path, tell: Callable[[str], None]) -> None:
        program = shutil.which("git")
        if program is None:
            raise PreflightError(
                f"{without_password(url)} is a git repository, and there is no git on this machine",
                hint="Install it (Debian: `apt-get install git`), or get the data set another way.",
            )
        self.url, self.directory = without_password(url), directory
        self._program, self._progress = program, Progress(tell)
        self._environ = environment(url, os.environ)

    async def run(self, *arguments: str, stdin: bytes = b"", what: str = "") -> bytes:
        """Run a command and return its output.

        Raises:
            PreflightError: It failed; the message has its own last words.
        """
        code, output, errors = await self.attempt(*arguments, stdin=stdin)
        if code != 0:
            raise self.failed(what or f"`git {arguments[0]}`", code, errors)
        return output

    def failed(self, what: str, code: int, errors: str) -> PreflightError:
        """Return the error for a command that failed."""
        return PreflightError(
            f"{self.url}: {what} failed (exit code {code}): {errors}", hint=_hint(errors)
        )

    async def attempt(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Run a command; return its exit code, its output, and the end of what it said about errors."""
        process = await trio.lowlevel.open_process(
            [self._program, *arguments],
            cwd=self.directory,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        output, errors = bytearray(), bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_feed, process, stdin)
                nursery.start_soon(_collect, process, output)
                nursery.start_soon(self._listen, process, errors)
                await process.wait()
                # what it left behind may hold the pipes open: nothing of that is wanted
                nursery.cancel_scope.deadline = trio.current_time() + _END_SECONDS
        finally:
            await _end(process)
        assert process.returncode is not None
        return process.returncode, bytes(output), _last_words(bytes(errors))

    async def _listen(self, process: trio.Process, errors: bytearray) -> None:
        """Keep the end of what it says, and tell of its progress."""
        assert process.stderr is not None
        async for chunk in process.stderr:
            errors += chunk
            del errors[:-_TAIL_BYTES]
            if found := _PROGRESS.findall(chunk):
                self._progress.say(f"{self.url}: {found[-1].decode(errors='replace').strip()}")


def environment(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of git for a repository: no questions, no foreign hooks, the password where no `ps` sees it."""
    made = {name: value for name, value in environ.items() if name not in _REPOSITORY_VARIABLES}
    made |= {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    made.setdefault("GIT_SSH_COMMAND", _SSH)
    config = list(_CONFIG)
    if (account := account_of(url)) is not None:
        place = urlsplit(without_password(url))
        key = f"credential.{place.scheme}://{place.netloc}.helper"
        config += [(key, ""), (key, _HELPER)]
        made["AGENTCOMPASS_GIT_USER"], made["AGENTCOMPASS_GIT_PASSWORD"] = account
    first = int(made.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(config, first):
        made[f"GIT_CONFIG_KEY_{number}"], made[f"GIT_CONFIG_VALUE_{number}"] = key, value
    made["GIT_CONFIG_COUNT"] = str(first + len(config))
    return made


def account_of(url: str) -> tuple[str, str] | None:
    """Return user and password that an http or https URL names."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or "@" not in parts.netloc:
        return None
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return unquote(user), unquote(password)


async def _feed(process: trio.Process, data: bytes) -> None:
    assert process.stdin is not None
    async with process.stdin as pipe:
        with suppress(trio.BrokenResourceError):  # it ended before it had read all
            await pipe.send_all(data)


async def _collect(process: trio.Process, output: bytearray) -> None:
    assert process.stdout is not None
    async for chunk in process.stdout:
        output += chunk


async def _end(process: trio.Process) -> None:
    """Kill what is left of it, with its children, and wait for its end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.move_on_after(_END_SECONDS, shield=True):
        await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                await pipe.aclose()


def _last_words(errors: bytes) -> str:
    """What git said in the end, without the lines of progress."""
    lines = [line.strip() for line in re.split(r"[\r\n]", errors.decode(errors="replace"))]
    said = [line for line in lines if line and not _PROGRESS.fullmatch(line.encode())]
    telling = [line for line in said if line.startswith(("fatal:", "error:", "remote:"))]
    return "; ".join((telling or said)[-3:])


def _hint(errors: str) -> str | None:
    if "No space left" in errors or "Out of diskspace" in errors:
        return "Free disk space, or choose another data directory (--data-dir)."
    if any(
        words in errors for words in ("could not read Username", "Authentication failed", "403")
    ):
        return "The repository does not exist, or it needs a login that git knows (a credential helper, an ssh key)."
    if "Permission denied (publickey" in errors or "Host key verification failed" in errors:
        return "Let `git ls-remote` of this URL work without a question first: an ssh key, a known host."
    return None
