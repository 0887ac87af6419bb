"""Many files at once: a few at a time, with progress, ended by the first that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, final

import trio

from agentcompass.data import frozen
from agentcompass.datasets.download import FileRefusedError, Wanted, download
from agentcompass.datasets.shelf import Shelf, megabytes
from agentcompass.datasets.web import Request, Web
from agentcompass.errors import counted

AT_ONCE: Final = 8
"""Files that are downloaded at the same time."""
TELL_SECONDS: Final = 5.0
"""Between two lines about progress."""


@frozen(kw_only=True)
class Job:
    """A file and how to ask for it."""

    wanted: Wanted
    request: Request


@final
class Progress:
    """Tells about progress, not too often.

    Args:
        tell: Takes a line.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last = -math.inf

    def say(self, line: str) -> None:
        """Tell a line if the last one is some seconds old."""
        now = trio.current_time()
        if now - self._last >= TELL_SECONDS:
            self._last = now
            self._tell(line)


@final
class Batch:
    """Downloads files to their places.

    Args:
        web: Sends the requests.
        shelf: Checked for room; parts of files stand beside its files.
        what: Is being obtained, for messages.
    """

    def __init__(self, web: Web, shelf: Shelf, what: str) -> None:
        self._web, self._shelf, self._what = web, shelf, what
        self._parts = shelf.part / "parts"
        self._progress = Progress(web.tell)
        self._bytes = self._size = self._done = self._count = 0

    async def get(
        self, jobs: Sequence[Job], refused: Callable[[Wanted, FileRefusedError], Exception]
    ) -> None:
        """Download all files that are not there.

        Args:
            jobs: The files.
            refused: Returns what is raised for a file that the server will not give.

        Raises:
            PreflightError: One cannot be had, or there is no room.
        """
        self._count, self._size = len(jobs), sum(job.wanted.size for job in jobs)
        await trio.to_thread.run_sync(self._check_room, jobs)
        failures: list[Exception] = []
        queue = iter(jobs)
        async with trio.open_nursery() as nursery:

            async def work(queue: Iterator[Job]) -> None:
                for job in queue:
                    try:
                        await self._get(job)
                    except FileRefusedError as error:
                        failures.append(refused(job.wanted, error))
                    except Exception as error:  # noqa: BLE001  # raised below, outside the nursery, which would wrap it
                        failures.append(error)
                    if failures:
                        nursery.cancel_scope.cancel(reason="another file failed")
                        return

            for _ in range(min(AT_ONCE, len(jobs))):
                nursery.start_soon(work, queue)
        if failures:
            raise failures[0]

    async def _get(self, job: Job) -> None:
        await download(self._web, job.request, job.wanted, self._parts, self._add)
        self._done += 1

    def _add(self, count: int) -> None:
        self._bytes += count
        self._progress.say(
            f"{self._what}: {self._done} of {counted(self._count, 'file')}, "
            f"{megabytes(self._bytes)} of {megabytes(self._size)} MB"
        )

    def _check_room(self, jobs: Iterable[Job]) -> None:
        there = 0
        for path in (*(job.wanted.target for job in jobs), *self._parts.glob("*")):
            if path.exists():
                there += path.stat().st_size
        self._shelf.need(self._size - there)
