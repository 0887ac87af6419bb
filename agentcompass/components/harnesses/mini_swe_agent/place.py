"""Where the agent's commands run, and how: what its configuration says, and what the sandbox turns out to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from agentcompass.components.base import ExecResult, MiB, Session
from agentcompass.components.harnesses.mini_swe_agent.config import BASH_ENV, EnvironmentPart
from agentcompass.components.harnesses.tool_loop.tools import readable
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

MAX_OUTPUT: Final = 4 * MiB
"""Bytes of a command's output that are kept, head and tail: a submission is one, and has to be whole."""
DEFAULT_INTERPRETER: Final = ("bash", "-lc")
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""Where the configuration says nothing. Source: `DockerEnvironmentConfig` of mini-swe-agent 2.4.6."""
_PROBE_SECONDS: Final = 60.0
UNAME: Final = ("system", "node", "release", "version", "machine")
"""As templates call them."""
_PROBE: Final = """\
for part in s n r v m; do uname -$part 2>/dev/null || echo; done
command -v "$1" >/dev/null 2>&1 && echo yes || echo no
[ -r "$2" ] && echo yes || echo no"""
_ONE_STREAM: Final = 'exec "$@" 2>&1'
"""Both outputs as one, in the order in which they were written."""


@frozen(kw_only=True)
class Place:
    """What all commands of an attempt have in common."""

    cwd: str
    env: Mapping[str, str]
    interpreter: tuple[str, ...]
    timeout_seconds: float
    system: Mapping[str, str]
    """What `uname` says there, under the names that templates use."""

    async def run(self, session: Session, command: str) -> ExecResult:
        """Run a command line of the agent's; both outputs are in `stdout`, and in `stderr` why it could not be started.

        Raises:
            SandboxError: The sandbox failed, not the command.
        """
        return await session.exec(
            ["sh", "-c", _ONE_STREAM, "sh", *self.interpreter, readable(command)],
            cwd=self.cwd,
            env=self.env,
            timeout=self.timeout_seconds,
            max_output=MAX_OUTPUT,
        )


def place_of(config: EnvironmentPart, *, workdir: str, system: Mapping[str, str]) -> Place:
    """Return what a configuration says, in a sandbox."""
    return Place(
        cwd=config.cwd or workdir,
        env=dict(config.env),
        interpreter=config.interpreter or DEFAULT_INTERPRETER,
        timeout_seconds=config.timeout or DEFAULT_TIMEOUT_SECONDS,
        system=system,
    )


async def look_around(session: Session, config: EnvironmentPart) -> Place:
    """Return how commands run in a sandbox.

    A start-up file that the sandbox has not is left out: the shell would complain about it in every output.

    Raises:
        SandboxError: The directory or the interpreter is not there.
    """
    place = place_of(config, workdir=session.workdir, system={})
    program, start_up = place.interpreter[0], place.env.get(BASH_ENV, "")
    found = await session.exec(
        ["sh", "-c", _PROBE, "sh", program, start_up],
        cwd=place.cwd,
        env={name: value for name, value in place.env.items() if name != BASH_ENV},
        timeout=_PROBE_SECONDS,
    )
    lines = found.stdout.splitlines()
    if found.returncode != 0 or len(lines) != len(UNAME) + 2:
        raise SandboxError(
            f"no command can be run in {place.cwd} of the sandbox (exit code {found.returncode}): {found.stderr.strip()[-500:]}",
            code="no-shell",
            hint="Is the directory there? It is `cwd` of the configuration, else the task's or the image's.",
        )
    *system, has_program, has_start_up = lines
    if has_program == "no":
        raise SandboxError(
            f"the sandbox has no {program!r}, which is to run the agent's commands",
            code="interpreter-missing",
            retryable=False,
            hint='Use an image with it, or name another one: `"interpreter": ["sh", "-c"]` under `environment` of `config`.',
        )
    env = {name: v for name, v in place.env.items() if name != BASH_ENV or has_start_up == "yes"}
    return attrs.evolve(place, env=env, system=dict(zip(UNAME, system, strict=True)))
