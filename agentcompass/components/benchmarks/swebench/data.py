"""Getting the rows of a data set: those published on the Hugging Face hub, or those of a file."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from agentcompass.components.base import LoadContext
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, PreflightError

_CHILD: Final = Path(__file__).with_name("data_child.py")
_SAID: Final = 1000
_LOGIN: Final = "It needs a token, or does not exist: set HF_TOKEN, or log in with `hf auth login`."
_OFFLINE: Final = "Is there a network? Or get the file another way and name it as `dataset_path`."
_HINTS: Final = {
    "GatedRepoError": _LOGIN,
    "RepositoryNotFoundError": _LOGIN,
    "RevisionNotFoundError": "Check the parameter `revision`.",
    "LocalEntryNotFoundError": _OFFLINE,
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE forbids to ask the hub, and its cache does not have the data.",
    "ConnectError": _OFFLINE,
    "ConnectTimeout": _OFFLINE,
}


@frozen(kw_only=True)
class Published:
    """A data set of the hub."""

    repository: str
    revision: str
    """Commit id, tag or branch."""
    split: str

    def __str__(self) -> str:
        return f"{self.repository} at {self.revision}"


@frozen(kw_only=True)
class Rows:
    """What a data set has."""

    rows: list[dict[str, Any]]
    version: str
    """Identifies the content."""


async def published(source: Published, ctx: LoadContext, wanted_by: str) -> Rows:
    """Return the rows of a data set of the hub, which is asked for them on the first use only.

    A branch is what it was then: remove the file below `<data_dir>/swebench/` to ask again.

    Args:
        source: Which one.
        ctx: Where it is kept, and whether it may be downloaded.
        wanted_by: The benchmark's id, for the advice of a command.

    Raises:
        PreflightError: It cannot be had; or it is not there and may not be downloaded.
    """
    name = f"{source.repository.replace('/', '--')}@{source.revision.replace('/', '--')}"
    file = ctx.data_dir / "swebench" / f"{name}-{source.split}.jsonl"
    rows = await trio.to_thread.run_sync(_kept, file)
    if rows is None:
        if not ctx.may_download:
            raise PreflightError(
                f"the data set {source} is not in {ctx.data_dir}",
                hint=f"Get it with `agentcompass prefetch {wanted_by}`.",
            )
        ctx.note(f"getting the data set {source}")
        asked = {
            "repository": source.repository,
            "revision": source.revision,
            "split": source.split,
        }
        await _make(asked, file, f"the data set {source}")
        rows = await trio.to_thread.run_sync(_kept, file)
    if rows is None:
        raise PreflightError(f"{file} vanished while it was read")
    return rows


async def of_file(path: Path, ctx: LoadContext) -> Rows:
    """Return the rows of a file of the user's: `.jsonl`, `.json` (a list) or `.parquet`.

    Raises:
        ConfigurationError: It cannot be read.
    """
    if path.suffix != ".parquet":
        return await trio.to_thread.run_sync(_read_text, path)
    digest = await trio.to_thread.run_sync(_digest, path)
    file = ctx.data_dir / "swebench" / f"{digest}.jsonl"
    rows = await trio.to_thread.run_sync(_kept, file)
    if rows is None:
        await _make({"path": str(path)}, file, str(path))
        rows = await trio.to_thread.run_sync(_kept, file)
    if rows is None:
        raise PreflightError(f"{file} vanished while it was read")
    return Rows(rows=rows.rows, version=digest)


async def _make(asked: Mapping[str, str], target: Path, what: str) -> None:
    """Have a file of rows made, whole or not at all."""
    done = await trio.run_process(
        [sys.executable, "-P", "-B", str(_CHILD)],
        stdin=json.dumps({**asked, "target": str(target)}).encode(),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        start_new_session=True,
        deliver_cancel=_kill,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip()[-_SAID:]
        answer = {"error": f"exit code {done.returncode}", "message": said}
    if error := answer.get("error"):
        message = " ".join(str(answer.get("message")).split())[:_SAID]
        raise PreflightError(f"{what} cannot be had: {message} ({error})", hint=_HINTS.get(error))


async def _kill(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _kept(file: Path) -> Rows | None:
    """Read what was made earlier; None if it is not there or not whole."""
    try:
        with file.open("rb") as stream:
            head = json.loads(stream.readline())
            rows = [json.loads(line) for line in stream]
    except (OSError, ValueError):
        return None
    if not isinstance(head, dict) or len(rows) != head.get("rows"):
        return None
    return Rows(rows=rows, version=head.get("commit") or head.get("sha256", ""))


def _digest(path: Path) -> str:
    hasher = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while lump := stream.read(1 << 20):
                hasher.update(lump)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    return hasher.hexdigest()


def _read_text(path: Path) -> Rows:
    try:
        data = path.read_bytes()
        if path.suffix == ".json":
            rows = json.loads(data)
            rows = list(rows.values()) if isinstance(rows, dict) else rows
        else:
            rows = [json.loads(line) for line in data.split(b"\n") if line.strip()]
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except ValueError as error:
        raise _unreadable(path, f"it is no JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unreadable(path, "it is no list of objects")
    return Rows(rows=rows, version=hashlib.sha256(data).hexdigest())


def _unreadable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the data set {path} cannot be read: {why}",
        hint="`dataset_path` is a file of rows: .jsonl, .json or .parquet.",
    )
