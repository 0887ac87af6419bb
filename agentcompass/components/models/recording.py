"""Model exchanges in a file: what was asked, and what the endpoint answered.

A line for each call that came to its end: with an answer, as the protocol's own object, or with an error that
another try would not have changed. What was tried again is not in it. Keys of endpoints are in no request, and known
secrets are removed from what is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio

from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, ModelError
from agentcompass.records import JSON
from agentcompass.regular import append_all, cut_torn_line, open_regular
from agentcompass.secrets import Scrubber

SCHEMA: Final = 1
MAX_LINE: Final = 256 * 1024 * 1024


@final
@frozen(kw_only=True)
class Exchange:
    """One call."""

    protocol: str
    host: str
    """Of the endpoint."""
    model: str
    request: Mapping[str, JSON]
    """The body without the model's id."""
    response: Mapping[str, JSON] | None = None
    """None: an error."""
    usage: JSON = None
    """As the endpoint told it."""
    error: Mapping[str, JSON] | None = None
    """`code`, `message`, `hint`; and what the endpoint said, if it did: `status`, `body`."""


@final
@frozen(kw_only=True)
class Recording:
    """What a recording is good for (`catalog.ServedModel`)."""

    protocols: tuple[str, ...]
    version: str


def file_of(model_id: str) -> Path:
    """Return the file that the id of a model names."""
    return Path(model_id.partition(":")[2]).expanduser()


def served(model_id: str) -> Recording:
    """Return what the recording of an id is good for. Blocking.

    Raises:
        ConfigurationError: It cannot be read, or is damaged.
    """
    protocols: dict[str, None] = {}

    def take(exchange: Exchange) -> bool:
        protocols[exchange.protocol] = None
        return True

    digest = read(file_of(model_id), take)
    if not protocols:
        raise ConfigurationError(f"{file_of(model_id)} holds no model exchange")
    return Recording(protocols=tuple(protocols), version=f"sha256:{digest}")


@final
class Recorder:
    """Appends exchanges to a file, which is made with the first.

    Args:
        path: A file that is not there yet, or a recording, to which is added.
        scrubber: Knows the secrets.
    """

    def __init__(self, path: Path, scrubber: Scrubber) -> None:
        self._path, self._scrubber = path, scrubber
        self._lock = threading.Lock()
        self._threads = trio.CapacityLimiter(1)

    def check(self) -> None:
        """Check that the file can be written. Blocking.

        Raises:
            ConfigurationError: It cannot, or it is something else than a recording.
        """
        path = self._path
        try:
            if path.exists() and path.stat().st_size:
                first(path)
            elif not os.access(path if path.exists() else path.parent, os.W_OK):
                raise ConfigurationError(f"the recording {path} cannot be written")
        except OSError as error:
            text = f"the recording {path} cannot be written: {error.strerror or error}"
            raise ConfigurationError(text) from error

    async def add(self, exchange: Exchange) -> None:
        """Write an exchange.

        Raises:
            ModelError: It cannot be written (code `recording-failed`): a recording with gaps would be none.
        """
        with trio.CancelScope(shield=True):  # a moment, for an answer that is paid for
            await trio.to_thread.run_sync(self._write, exchange, limiter=self._threads)

    def _write(self, exchange: Exchange) -> None:
        line = json.dumps({"recording": SCHEMA, **attrs.asdict(exchange)}) + "\n"
        line = self._scrubber.scrub(line)
        try:
            with self._lock:
                _append(self._path, line.encode())
        except OSError as error:
            raise ModelError(
                f"the exchange could not be written to {self._path}: {error.strerror or error}",
                code="recording-failed",
                retryable=False,
            ) from error


def _append(path: Path, line: bytes) -> None:
    """Append a line, all of it or nothing; what a run that was killed left of one is cut off."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # another run may be recording to it
        cut_torn_line(descriptor)
        append_all(descriptor, line)
    finally:
        os.close(descriptor)


def first(path: Path) -> Exchange:
    """Return the first exchange of a recording.

    Raises:
        ConfigurationError: The file is not there, is none, or is a newer one.
    """
    found: list[Exchange] = []

    def take(exchange: Exchange) -> bool:
        found.append(exchange)
        return False

    read(path, take)
    if not found:
        raise ConfigurationError(f"{path} holds no model exchange")
    return found[0]


def read(path: Path, take: Callable[[Exchange], bool]) -> str:
    """Read a recording. Blocking. A torn last line, which a crash leaves, is dropped.

    Args:
        path: The file.
        take: Gets each exchange; false stops.

    Returns:
        The SHA-256 of what was read.

    Raises:
        ConfigurationError: The file cannot be read, is none, or is a newer one.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
                if not line.endswith(b"\n"):
                    break
                digest.update(line)
                if not take(_exchange(path, number, line)):
                    break
    except OSError as error:
        text = f"the recording {path} cannot be read: {error.strerror or error}"
        raise ConfigurationError(text) from error
    return digest.hexdigest()


def _exchange(path: Path, number: int, line: bytes) -> Exchange:
    where = f"{path}:{number}"
    try:
        data = json.loads(line)
        schema = data.pop("recording")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ConfigurationError(f"{where} is no model exchange: this is not a recording") from None
    if schema != SCHEMA:
        raise ConfigurationError(f"{where} is of schema {schema!r:.20}: use a newer agentcompass")
    try:
        exchange = Exchange(**data)
    except TypeError:
        raise ConfigurationError(
            f"{where} is damaged: it has not the fields of an exchange"
        ) from None
    if (exchange.response is None) == (exchange.error is None) or not _is_whole(exchange):
        raise ConfigurationError(f"{where} is damaged: it has not the fields of an exchange")
    return exchange


def _is_whole(exchange: Exchange) -> bool:
    texts: tuple[Any, ...] = (exchange.protocol, exchange.host, exchange.model)
    objects: tuple[Any, ...] = (exchange.request, exchange.response or exchange.error)
    return all(isinstance(text, str) for text in texts) and all(
        isinstance(each, Mapping) for each in objects
    )
