"""The one exception of this package, and what becomes it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

import httpx
import trio

from agentcompass.errors import SandboxError

_PERMISSION_HINT: Final = (
    "May this user use the engine's socket? Usually that is: be a member of the group docker."
)
_ABSENT_HINT: Final = (
    "Is the engine running, and is DOCKER_HOST (or the Docker context) the right one?"
)
_BY_STATUS: Final = {400: "bad-request", 403: "forbidden", 404: "not-found", 409: "conflict"}
_BY_WORDS: Final = (
    ("no such container", "no-such-container"),
    ("no such exec instance", "no-such-exec"),
    ("no such image", "no-such-image"),
    ("manifest unknown", "no-such-image"),
    ("manifest for ", "no-such-image"),
    ("repository does not exist", "no-such-image"),
    ("unauthorized", "registry-auth-failed"),
    ("no basic auth credentials", "registry-auth-failed"),
    ("authentication required", "registry-auth-failed"),
    ("no such network", "no-such-network"),
    ("unable to find user", "no-such-user"),
    ("no matching entries in passwd file", "no-such-user"),
    ("could not select device driver", "no-such-device"),
    ("executable file not found", "no-such-program"),
    ("no space left on device", "disk-full"),
    ("cannot overwrite", "bad-request"),
    ("too many links", "not-found"),
    ("toomanyrequests", "pull-rate-limited"),
    ("rate limit", "pull-rate-limited"),
    ("non-overlapping ipv4 address pool", "no-address-pool"),
    ("address pools have been fully subnetted", "no-address-pool"),
)
_FINAL: Final = {
    "artifact-too-large",
    "bad-engine-address",
    "bad-path",
    "bad-request",
    "build-failed",
    "build-timeout",
    "ended-from-inside",
    "forbidden",
    "memory-exceeded",
    "no-such-device",
    "no-such-image",
    "no-such-program",
    "no-such-user",
    "path-outside",
    "registry-auth-failed",
    "taken-over",
}
"""Codes of failures that another try would only repeat."""


class DockerError(SandboxError):
    """The engine refused, failed, fell silent, or could not be reached.

    Args:
        message: What failed, for a person; ends with the engine's own words if it gave any.
        code: `engine-unreachable` (nothing was sent), `engine-lost` (the connection broke: it may have been done),
            `engine-timeout` (no answer in time: the same), `container-died`, `no-such-container`, `no-such-image`,
            `conflict`, `disk-full`, `pull-rate-limited`, ... (see `errors.py` of this package).
        status: The HTTP status that the engine answered with; None if it gave no answer.
        hint: What the user can do.
    """

    default_code = "docker-failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, retryable=code not in _FINAL)
        self.status = status


def refused(action: str, status: int, words: str) -> DockerError:
    """Return the error for an answer that is none of success.

    Args:
        action: What was asked for, as in "create the container x".
        status: The HTTP status.
        words: What the engine said about it.
    """
    return DockerError(
        f"the engine did not {action}: {words or f'status {status}'}",
        code=code_for(words) or _BY_STATUS.get(status, "engine-failed"),
        status=status,
    )


def code_for(words: str) -> str | None:
    """Return the code for what an engine says, as far as its words tell."""
    text = words.lower()
    return next((code for known, code in _BY_WORDS if known in text), None)


@final
class TimeLimit:
    """Gives what is done in its `with` block so many seconds, and then raises `DockerError` (`engine-timeout`).

    Args:
        seconds: How many.
        action: What is being done, as in "create the container x".
    """

    def __init__(self, seconds: float, action: str) -> None:
        self._seconds, self._action = seconds, action
        self._scope = trio.CancelScope()

    def __enter__(self) -> None:
        self._scope.deadline = trio.current_time() + self._seconds
        self._scope.__enter__()

    def __exit__(self, *details: object) -> None:
        self._scope.__exit__(*details)  # type: ignore[arg-type]  # as they came
        if self._scope.cancelled_caught:
            raise timed_out(self._action, self._seconds)


def timed_out(action: str, seconds: float) -> DockerError:
    """Return the error for an engine that has not answered in time."""
    return DockerError(
        f"the engine did not {action} within {seconds:.0f} s",
        code="engine-timeout",
        hint="It may be overloaded, or hang: `docker ps` shows whether it answers.",
    )


@contextmanager
def as_docker_errors(action: str, where: str) -> Iterator[None]:
    """Turn what the network raises into `DockerError`.

    Args:
        action: What was asked for, as in "create the container x".
        where: The engine's address, for people.
    """
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise DockerError(
            f"no Docker engine can be reached at {where}: {error}",
            code="engine-unreachable",
            hint=_PERMISSION_HINT if _is_forbidden(error) else _ABSENT_HINT,
        ) from error
    except httpx.TimeoutException as error:
        raise DockerError(
            f"the engine fell silent: it was to {action}", code="engine-timeout"
        ) from error
    except (httpx.HTTPError, OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise DockerError(
            f"the connection to the engine broke: it was to {action} ({error})",
            code="engine-lost",
        ) from error


def _is_forbidden(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
            return True
        error = error.__cause__
    return False
