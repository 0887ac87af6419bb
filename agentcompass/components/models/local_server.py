"""The processes that serve local models: one for each file of weights in this process, shared by whoever asks.

All of it blocks and none of it knows an event loop: evaluations in several loops and threads share a server, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from agentcompass.components.models.catalog import LocalModel
from agentcompass.errors import PreflightError

START_SECONDS: Final = 180.0
"""Until a server answers: assembling the weights takes a second or two, or a minute on a slow disk."""
POLL_SECONDS: Final = 0.05
"""How often a wait looks whether it is still wanted."""
REAP_SECONDS: Final = 5.0
TAIL_BYTES: Final = 2000

_PROGRAM: Final = Path(__file__).with_name("local_child.py")
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
"""Variables that the process sees; no other, so no key."""

Check = Callable[[], None]
"""Called often while something is waited for; raises when nobody waits any more."""


@final
class LocalServer:
    """A process that serves one model on loopback.

    Args:
        model: Which.
        weights: Where its file of weights is, or is to be made.
    """

    def __init__(self, model: LocalModel, weights: Path) -> None:
        self.model = model
        self.url = ""
        """Once it has started."""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `stop`
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            # the keys of a terminal are for the engine, which ends this process when it is time
            start_new_session=True,
        )
        self._job = {
            "sys_path": [entry or str(Path.cwd()) for entry in sys.path],
            "parent": os.getpid(),
            "model": model.id,
            "weights_package": model.weights_package,
            "sha256": model.sha256,
            "context_tokens": model.context_tokens,
            "weights": str(weights),
        }

    def start(self, check: Check, limit_seconds: float) -> None:
        """Wait until it answers.

        Raises:
            PreflightError: It ended, or did not answer in time; with the end of what it said.
        """
        line = self._converse(check, time.monotonic() + limit_seconds)
        try:
            self.url = str(json.loads(line)["url"])
        except (ValueError, KeyError, TypeError):
            raise self._did_not_start(self._how_it_ended(limit_seconds)) from None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process.poll() is None

    def tail(self) -> str:
        """The end of what it wrote about itself."""
        # by position, since the process shares this file's offset
        size = os.fstat(self._output.fileno()).st_size
        said = os.pread(self._output.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
        return said.decode(errors="replace").strip()

    def stop(self) -> None:
        """Kill it: there is nothing that it would have to put away. Takes milliseconds."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(REAP_SECONDS)
        self._output.close()

    def _converse(self, check: Check, deadline: float) -> bytes:
        """Say what is to be done; return the line that comes back, or what there was of it."""
        said, heard = self._process.stdin, self._process.stdout
        if said is None or heard is None:
            raise AssertionError("both were asked for")
        with contextlib.suppress(BrokenPipeError):
            said.write(json.dumps(self._job).encode() + b"\n")
            said.flush()
        line = b""
        # select(2) would not do where a program has more than a thousand files open
        waiting = select.poll()
        waiting.register(heard, select.POLLIN)
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            check()
            if waiting.poll(POLL_SECONDS * 1000):
                data = os.read(heard.fileno(), 4096)
                if not data:
                    break
                line += data
        return line

    def _how_it_ended(self, limit_seconds: float) -> str:
        try:
            code = self._process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"it did not answer within {limit_seconds:g} s"
        return f"it ended with exit code {code}"

    def _did_not_start(self, why: str) -> PreflightError:
        said = self.tail()
        return PreflightError(
            f"the local model {self.model.id!r} could not be started: {why}"
            + (f". It said:\n{said}" if said else ""),
            hint="Is there room on the disk of data_dir, and about 500 MB of free memory?",
        )


@final
class ServerPool:
    """The servers of this process, each with how many use it."""

    def __init__(self) -> None:
        self._users: dict[LocalServer, int] = {}
        self._counting = threading.Lock()
        """Held for moments only."""
        self._starting = threading.Lock()

    def take(
        self,
        model: LocalModel,
        weights: Path,
        *,
        check: Check,
        note: Callable[[str], None],
        limit_seconds: float = START_SECONDS,
    ) -> LocalServer:
        """Return the running server of a model, started if there is none; give it back with `release`.

        Args:
            model: Which.
            weights: Where its file of weights is, or is to be made.
            check: May raise to stop waiting.
            note: Told before a server is started.
            limit_seconds: For its start.

        Raises:
            PreflightError: It could not be started.
        """
        while not self._starting.acquire(timeout=POLL_SECONDS):
            check()
        try:
            server = self._running(model)
            if server is None:
                note(f"starting local model {model.id} ({model.description})")
                server = _started(model, weights, check, limit_seconds)
                with self._counting:
                    self._users[server] = 1
            return server
        finally:
            self._starting.release()

    def release(self, server: LocalServer) -> None:
        """Give a server back; the last one to do so ends it. Does not wait for one that is being started."""
        with self._counting:
            self._users[server] -= 1
            is_last = self._users[server] == 0
            if is_last:
                del self._users[server]
        if is_last:
            server.stop()

    def _running(self, model: LocalModel) -> LocalServer | None:
        with self._counting:
            for server in self._users:
                if server.model == model and server.is_running:
                    self._users[server] += 1
                    return server
        return None


def _started(model: LocalModel, weights: Path, check: Check, limit_seconds: float) -> LocalServer:
    try:
        server = LocalServer(model, weights)
    except OSError as error:
        raise PreflightError(f"the local model {model.id!r} cannot be started: {error}") from error
    try:
        server.start(check, limit_seconds)
    except BaseException:  # whatever it was, a cancellation included: no process is left
        server.stop()
        raise
    return server


SERVERS: Final = ServerPool()
"""The one of this process: what it holds is memory of the machine, and two evaluations need no two copies."""
