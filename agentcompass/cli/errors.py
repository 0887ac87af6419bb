"""How an error reaches a person: one readable message on standard error, a hint, and the exit code.

Every message is scrubbed and made printable. A traceback is shown with `--log-level DEBUG` only.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TextIO

from cyclopts import CycloptsError

from agentcompass.data import frozen
from agentcompass.errors import AgentCompassError, describe
from agentcompass.progress.text import encodable, printable
from agentcompass.records import JSON, RequestOutcome
from agentcompass.secrets import Scrubber

USAGE: Final = 2
INTERNAL: Final = 1

_REPORT_HINT: Final = (
    "This is a fault of agentcompass, not yours. Please report it, with the command and what it prints"
    " when `--log-level DEBUG` is added."
)
_LONGEST: Final = 500
"""Characters at each end of a line that a message shows."""
_SECRET_FLAG: Final = "--model-api-key"


@frozen
class Context:
    """What reporting must know before anything has been parsed."""

    is_debug: bool
    scrubber: Scrubber

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Context:
        """Look at the raw command line; secrets from elsewhere are registered when they are resolved."""
        scrubber = Scrubber()
        keys = _values(arguments, _SECRET_FLAG)
        scrubber.register(*(key for key in keys if not key.startswith("${")))
        return cls("DEBUG" in _values(arguments, "--log-level"), scrubber)

    def clean(self, text: str) -> str:
        """Return lines that a terminal may show."""
        return self.scrubber.scrub(printable(text, multiline=True))

    def scrubbed(self, value: JSON) -> JSON:
        """Return a JSON value without secrets, which words of components may hold."""
        if isinstance(value, str):
            return self.scrubber.scrub(value)
        if isinstance(value, Mapping):
            return {self.scrubber.scrub(key): self.scrubbed(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrubbed(item) for item in value]
        return value


def report(error: BaseException, context: Context, stream: TextIO, *, about: str = "") -> int:
    """Tell a person about an error and return the exit code.

    Args:
        error: Whatever ended the command.
        context: Of this command line.
        stream: Where to; standard error.
        about: What it concerns, if there are several things: a request's name.
    """
    code, message, hint = _described(error)
    who = f"{printable(about)}: " if about else ""
    lines = [_cut(line) for line in f"error: {who}{message}".splitlines()]
    if hint:
        lines += [_cut(line) for line in hint.splitlines()]
    if context.is_debug:
        lines[:0] = "".join(traceback.format_exception(error)).splitlines()
    tell("\n".join(lines), context, stream)
    return code


def tell(text: str, context: Context, stream: TextIO) -> None:
    """Write lines for a person: printable, without secrets, and to nobody if nobody is there."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(encodable(context.clean(text), stream.encoding) + "\n")
        stream.flush()


def tell_outcome(
    outcome: RequestOutcome, context: Context, stream: TextIO, *, is_alone: bool
) -> None:
    """Tell why a request did not complete; by its name, unless it is alone."""
    error = outcome.exception or AgentCompassError(outcome.error or f"it was {outcome.status}")
    report(error, context, stream, about="" if is_alone else outcome.name)


def _described(error: BaseException) -> tuple[int, str, str | None]:
    if isinstance(error, AgentCompassError):
        return error.exit_code, error.message, error.hint
    if isinstance(error, CycloptsError):
        return USAGE, str(error).strip(), _usage_hint(error)
    if isinstance(error, OSError) and error.filename is not None:
        return INTERNAL, f"{error.strerror}: {error.filename!r}", None
    return INTERNAL, describe(error), _REPORT_HINT


def _cut(line: str) -> str:
    """A line that can be read: of a path of thousands of characters, the beginning, and what is said after it."""
    return line if len(line) <= 2 * _LONGEST else f"{line[:_LONGEST]} ... {line[-_LONGEST:]}"


def _usage_hint(error: CycloptsError) -> str:
    words = " ".join(("agentcompass", *(error.command_chain or ())))
    return f"`{words} --help` shows what can be given."


def _values(arguments: Sequence[str], flag: str) -> Iterator[str]:
    """The values that a flag has on a raw command line."""
    for argument, following in itertools.pairwise([*arguments, ""]):
        if argument == flag:
            yield following
        elif argument.startswith(f"{flag}="):
            yield argument.removeprefix(f"{flag}=")
