"""A sandbox as an installed agent finds it: its machine, the program if it is there, and a directory for what it keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from agentcompass.components.base import Session
from agentcompass.components.harnesses.installed.published import Machine, machine_of
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

_LOOK_SECONDS: Final = 60.0
_REMOVE_SECONDS: Final = 30.0

_NAME: Final = ".agentcompass"
"""Of the directory, with a number if others are there: agents tell it to their models, who are to be told the same in each run."""
_MAX_NUMBER: Final = 1000
_LOOK: Final = r"""
name=$1 max_number=$2
shift 2
home=
for base in "${TMPDIR:-}" "${HOME:-}" /var/tmp /tmp; do
    case $base in /*) ;; *) continue ;; esac
    case $base/ in "$PWD"/*) continue ;; esac
    dir=${base%/}/$name number=1
    while ! { mkdir -m 700 "$dir" 2>/dev/null && mkdir "$dir/config"; }; do
        [ "$number" -lt "$max_number" ] && { [ -e "$dir" ] || [ -L "$dir" ]; } || continue 2
        number=$((number + 1))
        dir=${base%/}/$name-$number
    done
    home=$dir
    break
done
echo "$home"
uname -m
library=none
for each in /lib/ld-musl-*; do [ -e "$each" ] && library=musl; done
for each in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e "$each" ] && library=glibc; done
echo "$library"
for each; do
    case $each in
    */*) [ -x "$each" ] && echo "$each" && break ;;
    *) command -v "$each" && break ;;
    esac
done
"""
"""Prints a new directory outside of the work directory, processor, C library, and the first program that is there."""


@frozen(kw_only=True)
class Place:
    """What there is in a sandbox."""

    home: str
    """A directory that is the program's own, with `config` in it; the user of commands can write there, nobody else."""
    machine: Machine
    program: str | None
    """The first of those looked for that can be run."""


@asynccontextmanager
async def settled_in(session: Session, programs: Sequence[str]) -> AsyncIterator[Place]:
    """Look around in a sandbox, and make a directory there for the block.

    Args:
        session: Of the sandbox.
        programs: Paths, or names to be looked for on the PATH, the best first.

    Raises:
        SandboxError: There is no shell, or no place for a directory (code `no-shell`).
    """
    argv = ["sh", "-c", _LOOK, "sh", _NAME, str(_MAX_NUMBER), *programs]
    looked = await session.exec(argv, timeout=_LOOK_SECONDS)
    home, processor, library, *found = [*looked.stdout.splitlines(), "", "", ""]
    if not home or not processor:
        raise SandboxError(
            f"the sandbox has no shell, or no directory that can be written (exit code {looked.returncode}): "
            f"{looked.stderr.strip()[-500:]}",
            code="no-shell",
        )
    yield Place(
        home=home,
        machine=machine_of(processor, is_musl=library == "musl"),
        program=found[0] or None,
    )
    # An agent that was cut off may leave it: its sandbox goes anyway.
    await session.exec(["rm", "-rf", home], timeout=_REMOVE_SECONDS)
