"""The files of one execution: what goes from the agent's sandbox to the evaluator's, and what both want kept."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.base import AgentOutcome, MiB, Session
from agentcompass.engine.jobs import Job
from agentcompass.plan.regrade import Earlier, copy_artifact
from agentcompass.store.evidence import scrub_folder
from agentcompass.store.files import explained
from agentcompass.store.layout import safe_name
from agentcompass.store.run import RunStore

ARTIFACT_BYTES: Final = 256 * MiB
"""What one attempt may hand from the agent's sandbox to the evaluator's."""
SCRUB_SECONDS: Final = 10.0
"""For removing secrets from what an agent has kept; then that goes on in its thread."""


@final
class KeptFiles:
    """Files of one execution, below the directory of its attempt.

    Args:
        store: Of the run.
        job: Which execution.
        threads: For what blocks.
    """

    def __init__(self, store: RunStore, job: Job, threads: trio.CapacityLimiter) -> None:
        self._paths, self._scrubber = store.paths, store.scrubber
        self._job, self._threads = job, threads
        self._has_agent_folder = False
        self._artifacts: dict[str, Path] = {}

    async def collect(self, session: Session, artifacts: Sequence[str]) -> None:
        """Take artifacts out of the agent's sandbox."""
        for number, path in enumerate(artifacts):
            file = self._artifact(number, path)
            try:
                await session.download(path, file, max_bytes=ARTIFACT_BYTES)
            except FileNotFoundError:
                continue  # the agent did not make it: that is for the evaluator to judge
            self._artifacts[path] = file

    async def recall(self, earlier: Earlier) -> AgentOutcome:
        """Take what an earlier run kept instead."""
        for number, (path, file) in enumerate(earlier.artifacts()):
            copy = self._artifact(number, path)
            await trio.to_thread.run_sync(copy_artifact, file, copy, limiter=self._threads)
            self._artifacts[path] = copy
        return await trio.to_thread.run_sync(earlier.outcome, limiter=self._threads)

    async def deliver(self, fresh: Session) -> None:
        """Put the artifacts into the evaluator's sandbox."""
        for path, file in self._artifacts.items():
            await fresh.upload(file, path)

    async def keep(self, files: Mapping[str, bytes]) -> None:
        """Write what the evaluator wants to be kept."""
        if not files:
            return
        folder = self._folder("evaluation")

        def write() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (folder / safe_name(name)).write_bytes(self._scrubber.scrub_bytes(content))

        await trio.to_thread.run_sync(write, limiter=self._threads)

    def agent_folder(self) -> Path:
        """Make and return the directory for what the agent wants to be kept."""
        folder = self._folder("agent")
        folder.mkdir(parents=True, exist_ok=True)
        self._has_agent_folder = True
        return folder

    async def scrub_agent_folder(self) -> None:
        """Remove secrets from what the agent wants to be kept, now that it writes no more; also when this is cancelled.

        Raises:
            StoreError: They could not be removed.
        """
        if not self._has_agent_folder:
            return
        folder = self._folder("agent")
        scrub = functools.partial(scrub_folder, folder, self._scrubber)
        with (
            trio.move_on_after(SCRUB_SECONDS, shield=True),
            explained("remove secrets from", folder),
        ):
            await trio.to_thread.run_sync(scrub, abandon_on_cancel=True, limiter=self._threads)

    def artifacts(self) -> dict[str, str]:
        """Return by path in the sandbox where the artifacts are, relative to the run directory."""
        run_dir = self._paths.run_dir
        return {
            path: file.relative_to(run_dir).as_posix() for path, file in self._artifacts.items()
        }

    def _artifact(self, number: int, path: str) -> Path:
        return self._folder("artifacts") / f"{number}-{safe_name(path)}"

    def _folder(self, role: str) -> Path:
        job = self._job
        return self._paths.attempt_dir(job.task.id, job.attempt) / f"{role}-{job.execution}"
