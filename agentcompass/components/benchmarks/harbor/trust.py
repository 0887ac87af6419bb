"""What an evaluator relies on in a sandbox that an agent may have changed: the shell, and that nothing is loaded into it.

It is read before the agent begins, and compared and put back before the tests run, by the environment's own transfer of
files, in which no program of the sandbox takes part. That is no proof: whoever is root where the tests run can also
replace the C library, Python, or what the tests install (docs/benchmarks.md says so to people).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, final
from weakref import WeakKeyDictionary, WeakValueDictionary

from agentcompass.components.base import MiB, Session
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError, InfraError, SandboxError

BASH: Final = "/bin/bash"
REMOVE: Final = "/bin/rm"
PROGRAMS: Final = (BASH, "/bin/sh", REMOVE)
PRELOAD: Final = "/etc/ld.so.preload"
"""Names what is loaded into every program."""
MAX_PROGRAM: Final = 64 * MiB


@final
class _Content:
    """What is in a file: one object for all sandboxes that have the same."""

    def __init__(self, data: bytes) -> None:
        self.data = data


@frozen(kw_only=True, eq=False)
class _Before:
    """A sandbox as it was; None for what was not there."""

    programs: Mapping[str, _Content | None]
    preload: bytes | None


@final
class Memory:
    """What sandboxes were like before their agents began, as long as they are open."""

    def __init__(self) -> None:
        self._contents: WeakValueDictionary[bytes, _Content] = WeakValueDictionary()
        self._before: WeakKeyDictionary[Session, _Before] = WeakKeyDictionary()

    async def remember(self, session: Session) -> None:
        """Read what the evaluator will rely on.

        Raises:
            InfraError: There is no bash to run the tests with (code `bash-missing`).
        """
        programs = {}
        for path in PROGRAMS:
            data = await _read(session, path, MAX_PROGRAM)
            programs[path] = None if data is None else self._shared(data)
        if programs[BASH] is None:
            raise InfraError(
                f"the task's image has no {BASH}, with which its tests are run",
                code="bash-missing",
                retryable=False,
                hint="Use an image with bash.",
            )
        preload = await _read(session, PRELOAD, MiB)
        self._before[session] = _Before(programs=programs, preload=preload)

    async def restore(self, session: Session) -> list[str]:
        """Put back what the agent changed; return what that was, as sentences.

        Raises:
            EvaluatorError: It cannot be put back (code `verifier-tampered`), or is not known.
            SandboxError: The sandbox failed.
        """
        before = self._before.get(session)
        if before is None:
            raise EvaluatorError("the sandbox was not prepared for this task", retryable=False)
        changed = []
        for path, content in before.programs.items():
            if content is None:
                continue
            now = await _read(session, path, len(content.data) + 1)
            if now != content.data:
                await _put_back(session, path, content.data, 0o755)
                changed.append(f"{path} was {'gone' if now is None else 'replaced'}")
        preload = await _read(session, PRELOAD, MiB)
        if (preload or b"") != (before.preload or b""):
            # an empty one is as good as none, and nothing has to be removed
            await _put_back(session, PRELOAD, before.preload or b"", 0o644)
            changed.append(f"{PRELOAD} was {'gone' if preload is None else 'written'}")
        return changed

    def _shared(self, data: bytes) -> _Content:
        digest = hashlib.sha256(data).digest()
        content = self._contents.get(digest)
        if content is None:
            content = self._contents[digest] = _Content(data)
        return content


async def _read(session: Session, path: str, limit: int) -> bytes | None:
    try:
        return await session.read_bytes(path, max_bytes=limit)
    except FileNotFoundError:
        return None


async def _put_back(session: Session, path: str, data: bytes, mode: int) -> None:
    try:
        await session.write_bytes(path, data, mode=mode)
    except SandboxError as error:
        if error.retryable:
            raise
        raise EvaluatorError(
            f"{path} is not what it was before the agent began, and cannot be put back: {error.message}",
            code="verifier-tampered",
            retryable=False,
        ) from error
