"""The agent's sandbox: what its repository must not tell is removed before, what changed in it is taken after."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from agentcompass.components.base import KiB, MiB, Session
from agentcompass.data import frozen
from agentcompass.errors import InfraError, SandboxError

OURS: Final = "/var/tmp/agentcompass"  # in a sandbox, where nobody else is
PATCH: Final = f"{OURS}/patch.diff"
"""What the agent changed."""
NOTES: Final = f"{OURS}/notes.txt"
"""What of it is not in the patch."""
BIG_FILE_BYTES: Final = 16 * MiB
"""New files larger than this, such as memory dumps, are no part of a patch."""
MAX_PATCH_BYTES: Final = 64 * MiB
"""Of a patch that is evaluated."""

_NO_GIT, _NO_DIRECTORY, _BASE_GONE = 21, 22, 23
_SAID: Final = 1000
_MAX_NOTES: Final = 100


async def prepare(session: Session, directory: str) -> None:
    """Remove from a repository all that came after its HEAD, and keep its present content aside.

    Branches other than the present one, tags that HEAD does not reach, remotes, reflogs and all objects that nothing
    reaches any more go. The work tree stays as it is; there may be no repository around it.

    Raises:
        SandboxError: There is no git (code `git-missing`) or no such directory (`no-repository`) in the sandbox, or the
            history cannot be removed (`repository-not-prepared`).
    """
    await _run(session, "prepare.sh", directory, OURS, failed="repository-not-prepared")


async def collect(session: Session, directory: str) -> None:
    """Make the patch of what the agent changed: commits, staged and other changes, new files, binary ones too.

    What git ignores stays out, and so do repositories that were made inside of this one, and new files larger than
    `BIG_FILE_BYTES`. Neither the agent's own git configuration nor the state of its repository matters.

    Raises:
        InfraError: It cannot be made (`patch-not-collected`), also where the agent removed what it is compared with
            (`base-gone`).
    """
    limits = (str(BIG_FILE_BYTES // KiB), str(MAX_PATCH_BYTES))
    await _run(session, "collect.sh", directory, OURS, *limits, failed="patch-not-collected")


async def _run(session: Session, script: str, *arguments: str, failed: str) -> None:
    done = await session.exec(
        ["sh", "-s", "--", *arguments], cwd="/", stdin=_script(script), max_output=64 * KiB
    )
    said = done.stderr.strip()[-_SAID:]
    if done.returncode == 0 and not done.timed_out:
        return
    if done.returncode == _NO_GIT:
        raise SandboxError(
            "the sandbox has no git, which the patch is taken with",
            code="git-missing",
            retryable=False,
            hint="Use an image with git in it.",
        )
    if done.returncode == _NO_DIRECTORY:
        raise SandboxError(
            f"the sandbox has no directory {arguments[0]} with the repository",
            code="no-repository",
            retryable=False,
            hint="Is it the right image? The directory is the parameter `repository_dir`.",
        )
    if done.returncode == _BASE_GONE:
        raise InfraError(
            f"the agent removed {OURS}, with which its work is compared",
            code="base-gone",
            retryable=False,
        )
    raise InfraError(
        f"{script} failed in the sandbox (exit code {done.returncode}): {said}", code=failed
    )


@frozen(kw_only=True)
class Collected:
    """What an agent left."""

    patch: bytes
    left_out: tuple[str, ...] = ()
    """Names of what is not in it."""
    too_large_bytes: int | None = None
    """The patch's size, if it was too large to be kept."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self.patch.strip() and self.too_large_bytes is None


async def read_collected(session: Session) -> Collected | None:
    """Return what `collect` made, from the evaluator's sandbox; None if it is not there."""
    try:
        patch = await session.read_bytes(PATCH, max_bytes=MAX_PATCH_BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        notes = (await session.read_text(NOTES, max_bytes=MiB)).splitlines()
    except FileNotFoundError:
        notes = []
    left_out = [line.partition(" ")[2] for line in notes if line.startswith("left-out ")]
    too_large = next(
        (int(line.split()[1]) for line in notes if line.startswith("too-large ")), None
    )
    return Collected(patch=patch, left_out=tuple(left_out[:_MAX_NOTES]), too_large_bytes=too_large)


@cache
def _script(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
