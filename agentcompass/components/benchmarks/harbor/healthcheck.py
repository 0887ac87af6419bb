"""Waiting for what a task's sandbox has to be ready for, before an agent begins: as a Dockerfile's HEALTHCHECK."""

from __future__ import annotations

import trio

from agentcompass.components.base import KiB, Session
from agentcompass.components.benchmarks.harbor.task_file import Healthcheck
from agentcompass.errors import InfraError


async def wait_until_healthy(session: Session, check: Healthcheck) -> None:
    """Run the command again and again until it succeeds; the phase's deadline bounds it, too.

    Raises:
        InfraError: It failed too often (code `unhealthy`).
    """
    start_ends = trio.current_time() + check.start_period_sec
    failures = 0
    while True:
        result = await session.exec(check.command, timeout=check.timeout_sec, max_output=4 * KiB)
        if result.returncode == 0:
            return
        is_starting = trio.current_time() < start_ends
        failures += not is_starting
        if failures >= check.retries:
            said = f"{result.stdout}{result.stderr}".strip()[-500:]
            raise InfraError(
                f"the sandbox was not ready after {failures} checks: "
                f"exit code {result.returncode}{f', {said}' if said else ''}",
                code="unhealthy",
            )
        await trio.sleep(check.start_interval_sec if is_starting else check.interval_sec)
