"""Ending a command's processes from inside its container, where nothing else is in reach: a remote engine.

A shell of the image does it, as the user whose processes they are: only that user may see their environments. So it
works as long as the image has one, and `grep` or `cat`, and nobody has exchanged them; whoever needs certainty looks
at the result from outside (`listing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import trio

from agentcompass.containers.attach import ContainerCommand, attach
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask, path_of
from agentcompass.data import frozen

MAX_OUTPUT: Final = 64 * 1024

# Kills what has the mark $1 in its environment, and its descendants, round after round until nothing is found; says
# how many there were. Ends with 3 if environments cannot be searched. `grep` does it for all at once, unless it stops
# at the zero bytes between variables, as BusyBox's does.
END_SCRIPT: Final = r"""
mark=$1 seen=' ' rounds=0
if printf 'a\0%s' "$mark" | grep -qF -- "$mark"; then
    marked() { for f in $(grep -lsF -- "$mark" /proc/[0-9]*/environ); do f=${f#/proc/}; echo "${f%/*}"; done; }
elif cat /proc/self/environ; then
    marked() {
        for d in /proc/[0-9]*; do
            case $(cat "$d/environ") in *"$mark"*) echo "${d#/proc/}" ;; esac
        done
    }
else exit 3
fi >/dev/null 2>&1
parents() {
    for d in /proc/[0-9]*; do
        while read -r key value; do
            case $key in PPid:) echo "${d#/proc/}:$value"; break ;; esac
        done <"$d/status"
    done
}
while [ "$rounds" -lt 200 ]; do
    rounds=$((rounds + 1)) found=' '
    for pid in $(marked); do
        case $(cat "/proc/$pid/stat") in *') Z '*) ;; *) found="$found$pid " ;; esac
    done
    [ "$found" != ' ' ] || break
    pairs=$(parents) more=yes
    while [ -n "$more" ]; do
        more=
        for pair in $pairs; do
            case $found in *" ${pair%:*} "*) continue ;; esac
            case $found in *" ${pair#*:} "*) found="$found${pair%:*} " more=yes ;; esac
        done
    done
    for signal in STOP KILL; do
        for pid in $found; do kill -s "$signal" "$pid"; done
    done
    for pid in $found; do
        case $seen in *" $pid "*) ;; *) seen="$seen$pid " ;; esac
    done
done
set -- $seen
echo $#
"""


@final
@frozen
class Shown:
    """A process as the engine's machine shows it."""

    pid: int
    parent: int
    uid: str
    text: str
    """Its arguments and its environment."""


async def end_marked(
    docker: Docker, container: str, mark: str, user: str, *, seconds: float
) -> int | None:
    """Kill the processes whose environment has a mark, and their descendants; return how many there were.

    Args:
        docker: The engine.
        container: Running.
        mark: `NAME=value`, as it stands in the environment.
        user: Whose processes.
        seconds: For the whole.

    Returns:
        None if the image has nothing to do it with.
    """
    argv = ["sh", "-c", f"exec 2>/dev/null\n{END_SCRIPT}", "sh", mark]
    output = bytearray()
    with trio.move_on_after(seconds):
        program = await attach(docker, container, ContainerCommand(argv=argv, user=user))
        try:
            while (pieces := await program.receive()) is not None:
                for _stream, data in pieces:
                    output += data
                    del output[MAX_OUTPUT:]
            state = await program.ended()
        finally:
            await program.aclose()
        if state.exit_code == 0 and output.strip().isdigit():
            return int(output)
    return None


async def listing(docker: Docker, container: str) -> Sequence[Shown] | None:
    """Return the processes of a container as the engine's machine sees them, the oldest first, with environments.

    Returns:
        None if the engine's machine has no `ps` that can show it.
    """
    # `e` and `ww` show all of the environment; `ax`, since the engine picks its own from among all.
    query = {"ps_args": "axeww --sort=start_time -o pid,ppid,uid,args"}
    path = path_of("containers", container, "top")
    try:
        answer = await docker.call(Ask("GET", path, "list a container's processes", query=query))
        return [
            Shown(int(row[0]), int(row[1]), row[2], row[3] if len(row) > 3 else "")
            for row in answer["Processes"] or ()
        ]
    except DockerError as error:
        if error.status is None:
            raise
    except (KeyError, IndexError, TypeError, ValueError):
        pass
    return None
