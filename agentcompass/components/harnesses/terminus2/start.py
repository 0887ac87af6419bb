"""Getting a terminal in a sandbox: with the image's own tmux, or with one that is brought in."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from agentcompass.components.base import KiB, Session
from agentcompass.components.harnesses.terminus2.tmux_bundle import (
    TERMINAL,
    Bundle,
    bundled,
    no_tmux,
)
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

HISTORY_LINES: Final = 100_000
"""Kept above the screen."""
_START_SECONDS: Final = 120.0
_NUMBER: Final = re.compile(r"(\d+)\.(\d+)")
_LONGEST_SOCKET: Final = 100
"""Bytes of a socket's path; the kernel takes 107. A longer one is named relative to its directory."""

_SCRIPT: Final = r"""
mode=$1 name=$2 width=$3 height=$4 history=$5 is_login=$6 terminal=$7 longest=$8
shift 8
unset OLDPWD

# A directory of our own, and if programs are to be run from it, one where they can be.
choose() {
    for base in "${TMPDIR:-}" /tmp /var/tmp /dev/shm /run "${HOME:-}" "$PWD"; do
        case $base in /*) dir=${base%/}/$name ;; *) continue ;; esac
        mkdir -m 700 "$dir" 2>/dev/null || continue
        [ "$1" = files ] && return 0
        printf '#!/bin/sh\n' >"$dir/try" && chmod 700 "$dir/try" && "$dir/try" 2>/dev/null && return 0
        rm -rf "$dir"
    done
    echo "error=there is no directory for $1"
    exit 0
}

# Arguments: how tmux is called.
begin() {
    for shell in "$(command -v bash)" "$(command -v sh)" /bin/sh; do
        case $shell in /*) break ;; esac
    done
    if [ -z "${LC_ALL:-}${LC_CTYPE:-}${LANG:-}" ]; then
        for locale in C.utf8 C.UTF-8; do
            [ -d "/usr/lib/locale/$locale" ] && export LANG=C.UTF-8
        done
    fi
    socket=$dir/socket
    [ "${#socket}" -gt "$longest" ] && socket=socket
    if [ "$is_login" = yes ]; then run=; else run="exec $shell"; fi
    work=$PWD
    cd "$dir" || exit 1
    started=$("$@" -u -f /dev/null -S "$socket" start-server \; \
        set-environment -gu LOCPATH \; set-environment -gu OLDPWD \; \
        set-option -g default-shell "$shell" \; set-option -g default-command "$run" \; \
        set-option -g default-terminal "$terminal" \; set-option -g history-limit "$history" \; \
        set-option -g status off \; set-option -g automatic-rename off \; \
        new-session -d -x "$width" -y "$height" -c "$work" -P -F 'pane=#{session_id} #{pane_id} #{version}' 2>&1) ||
        { echo "error=$started"; exit 0; }
    echo "dir=$dir"
    echo "socket=$socket"
    echo "$started"
}

case $mode in
look)
    tmux=$(command -v tmux) || { echo "error=the sandbox has none"; exit 0; }
    version=$("$tmux" -V 2>&1)
    case $version in
    "tmux "[012].*) echo "error=the sandbox has $version, which is older than 3.0"; exit 0 ;;
    esac
    choose files
    begin "$tmux"
    ;;
place)
    choose programs
    for folder; do mkdir "$dir/$folder" || exit 1; done
    echo "dir=$dir"
    ;;
begin)
    dir=$name
    TERMINFO_DIRS=${TERMINFO_DIRS:-}:$dir
    export TERMINFO_DIRS
    begin "$@"
    ;;
esac
"""


@frozen(kw_only=True)
class Pane:
    """What a terminal is to be like."""

    width: int
    """Columns."""
    height: int
    """Rows."""
    is_login: bool
    """Its shell is a login shell."""
    program: str | None = None
    """A tmux of this machine that is brought in, whatever the image has."""


@frozen(kw_only=True)
class Started:
    """A tmux server that runs, and the pane that is the terminal."""

    argv: tuple[str, ...]
    """How it is talked to: program and options, without a command."""
    env: Mapping[str, str]
    """What that takes."""
    directory: str
    """Where that is called."""
    session: str
    pane: str
    version: str
    is_brought: bool
    """It is not the image's own."""

    @property
    def has_flags(self) -> bool:
        """Whether `attach-session` takes flags of a client, as from 3.2 on."""
        found = _NUMBER.search(self.version)
        return found is None or (int(found[1]), int(found[2])) >= (3, 2)


async def start(session: Session, pane: Pane) -> Started:
    """Start a terminal. What runs in it stays when the harness ends, as what every command leaves running does.

    Raises:
        SandboxError: There is no usable tmux (code `no-tmux`), or the sandbox failed.
    """
    reason = f"{pane.program} was asked for"
    if pane.program is None:
        said = await _run(session, pane, "look", _new_name())
        if "pane" in said:
            return _started(said, ["tmux"], {}, is_brought=False)
        reason = said.get("error", "")
    bundle = await trio.to_thread.run_sync(bundled, pane.program)
    said = await _run(session, pane, "place", _new_name(), *bundle.folders)
    directory = said.get("dir")
    if directory is None:
        raise no_tmux(f"{reason}; and for one to bring in, {said.get('error', '')}")
    await _place(session, bundle, directory)
    command, env = bundle.command(directory), bundle.env(directory)
    said = await _run(session, pane, "begin", directory, *command, env=env)
    if "pane" not in said:
        error = said.get("error", "")
        raise no_tmux(f"{reason}; the one that was brought in does not run there: {error}")
    return _started(said, command, env, is_brought=True)


def _new_name() -> str:
    return f".agentcompass-terminal-{secrets.token_hex(4)}"


async def _run(
    session: Session,
    pane: Pane,
    mode: str,
    name: str,
    *words: str,
    env: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Run a part of the script, and return what it says."""
    numbers = (pane.width, pane.height, HISTORY_LINES)
    kind = "yes" if pane.is_login else "no"
    done = await session.exec(
        ["sh", "-c", _SCRIPT, "sh", mode, name, *map(str, numbers), kind, TERMINAL, str(_LONGEST_SOCKET), *words],
        env=env,
        timeout=_START_SECONDS,
        max_output=16 * KiB,
    )  # fmt: skip
    if done.timed_out or (done.returncode != 0 and "=" not in done.stdout):
        how = "takes too long" if done.timed_out else f"failed: {done.stderr.strip()[-500:]}"
        raise no_tmux(f"looking for it {how}")
    said: dict[str, str] = {}
    for line in done.stdout.splitlines():
        key, equals, value = line.partition("=")
        if equals and "error" not in said:
            said[key] = value
        elif "error" in said:
            said["error"] += f" {line}"
    return said


async def _place(session: Session, bundle: Bundle, directory: str) -> None:
    """Write the files. A command does that, since it reaches every place that commands see."""
    for path, content in bundle.files.items():
        target = f"{directory}/{path}"
        done = await session.exec(
            ["sh", "-c", 'cat >"$1" && chmod 700 "$1"', "sh", target],
            stdin=content,
            timeout=_START_SECONDS,
            max_output=KiB,
        )
        if done.returncode != 0:
            raise SandboxError(
                f"tmux cannot be brought in: {target} cannot be written: {done.stderr.strip()}",
                code="no-tmux",
            )


def _started(
    said: Mapping[str, str], command: Sequence[str], env: Mapping[str, str], *, is_brought: bool
) -> Started:
    session, pane, version = said["pane"].split(" ", 2)
    return Started(
        argv=(*command, "-u", "-S", said["socket"]),
        env=env,
        directory=said["dir"],
        session=session,
        pane=pane,
        version=version,
        is_brought=is_brought,
    )
