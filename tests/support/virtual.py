"""A whole run of the engine in virtual time: its threads, its writer and its disk follow the clock too.

`MockClock` jumps over real threads, so here there are none: what the engine hands to a thread happens in its own
moment of virtual time, in an order that a seed decides. The same seed gives the same run, step by step.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import outcome
import trio
from trio.testing import MockClock

from agentcompass.engine import heap
from agentcompass.store.writer import Writer

MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def results():
    """A directory for a run's results, in memory where there is such a place: a run syncs after each virtual moment."""
    parent = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="engine-", dir=parent) as directory:
        yield Path(directory)


class VirtualThreads:
    """Stands in for trio's worker threads: each call takes the next of `delays` seconds, and cannot be ended."""

    def __init__(self, delays=(0.0,)):
        self._delays = itertools.cycle(delays)
        self.is_inside = False
        """Whether code runs now that believes to be in a worker thread."""

    def start(self, function, deliver, _name=None):
        trio.lowlevel.spawn_system_task(self._work, function, deliver, next(self._delays))

    async def _work(self, function, deliver, seconds):
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        self.is_inside = True
        try:
            result = outcome.capture(function)
        finally:
            self.is_inside = False
        deliver(result)

    @contextlib.contextmanager
    def installed(self):
        with mock.patch("trio._threads.start_thread_soon", self.start):
            yield


class VirtualWriter(Writer):
    """The writer without its thread: batches are written after `delays` seconds, by the writer's own code."""

    def __init__(self, threads, delays=(0.0,)):
        super().__init__()
        self._threads, self._delays = threads, itertools.cycle(delays)
        self._wake = None

    def start(self):
        self._wake = trio.Event()
        trio.lowlevel.spawn_system_task(self._pump)

    def submit(self, job):
        super().submit(job)
        if self._threads.is_inside:  # where somebody may block until it is done
            self.drain()
        elif self._wake is not None:
            self._wake.set()

    def close(self, timeout_seconds):
        super().close(timeout_seconds)
        self.drain()
        return True

    def drain(self):
        while self._queue or self._taken:
            self._do(self._take())

    async def _pump(self):
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await trio.sleep(next(self._delays))
            self.drain()


class Watch(trio.abc.Instrument):
    """Looks at a run between its steps.

    Args:
        on_step: Called before each step of a task with its number, from 1.
        on_idle: Called when everything waits, before the clock jumps.
    """

    def __init__(
        self,
        on_step: Callable[[int], None] = lambda _step: None,
        on_idle: Callable[[], None] = lambda: None,
    ):
        self.steps, self._on_step, self._on_idle = 0, on_step, on_idle
        self.error = None

    def before_task_step(self, task):
        self.steps += 1
        self._guarded(self._on_step, self.steps)

    def before_io_wait(self, timeout):
        now = trio.lowlevel.current_statistics()
        is_waiting = not now.tasks_runnable and not now.run_sync_soon_queue_size
        if is_waiting and now.seconds_to_next_deadline > 0:
            self._guarded(self._on_idle)

    def _guarded(self, look, *args):
        try:
            look(*args)
        except BaseException as error:  # trio would drop the instrument and go on
            self.error = self.error or error


def run_virtually(main, *, seed, threads, watch=None):
    """Run an async function on a virtual clock, the same way for the same seed; raise what `watch` found."""
    trio._core._run._r.seed(seed)
    random.seed(seed)
    instruments = [watch] if watch is not None else []
    with threads.installed(), heap.set_aside():
        result = trio.run(main, clock=MockClock(autojump_threshold=0), instruments=instruments)
    if watch is not None and watch.error is not None:
        raise watch.error
    return result


class DurableSizes:
    """How much has been synced of each file, by path."""

    def __init__(self):
        self.sizes: dict[str, int] = {}
        self._fsync = os.fsync

    def fsync(self, descriptor):
        self._fsync(descriptor)
        self.sizes[os.readlink(f"/proc/self/fd/{descriptor}")] = os.fstat(descriptor).st_size

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        with mock.patch("os.fsync", self.fsync):
            yield
