"""Every exception that AgentCompass raises, with the exit code and the hint that belong to it.

```
AgentCompassError                     .hint: what to do next
├── ConfigurationError        2       arguments, config or spec files are wrong; nothing ran   (ValueError)
│   ├── UnknownComponentError         no component of that id; names the nearest
│   └── NestedLoopError               a sync entry point inside a running event loop
├── PreflightError            3       something the run needs is not there                    (RuntimeError)
├── EvaluationError           1       .result and .paths as far as the run got
│   ├── EvaluationFailedError         the run ended but its score cannot be trusted           (RuntimeError)
│   └── EvaluationTimeoutError  124   timeout_seconds is over; finished tasks are on disk     (TimeoutError)
├── StoreError                1       results could not be written or read                    (RuntimeError)
└── InfraError                        raised by components: an attempt ends as `infra`        (RuntimeError)
    ├── SandboxError                  the sandbox failed: it, not the agent
    ├── ModelError                    the endpoint failed after its own retries
    └── EvaluatorError                the evaluator could not give a verdict
```

What goes wrong inside one attempt is recorded with that attempt and raised to nobody.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar


class AgentCompassError(Exception):
    """The root of all errors of this package.

    Args:
        message: One or two lines that say what is wrong.
        hint: What the reader can do about it, as a sentence; shown after the message.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # by default the constructor would be called with the message alone, which not every one takes
        return _restored, (type(self), self.args, vars(self))


def _restored(
    cls: type[AgentCompassError], args: tuple[object, ...], fields: Mapping[str, object]
) -> AgentCompassError:
    error = cls.__new__(cls, *args)
    vars(error).update(fields)
    return error


class ConfigurationError(AgentCompassError, ValueError):
    """Arguments, config files or spec files are wrong; raised before anything runs.

    Args:
        message: The problems, a line each.
        hint: What to do.
        problems: The same as data: objects with `path`, `where` and `sentence` (`spec.problems.Problem`).
    """

    exit_code = 2

    def __init__(
        self, message: str, *, hint: str | None = None, problems: Iterable[object] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class UnknownComponentError(ConfigurationError):
    """No component is registered under an id.

    Args:
        kind: "benchmark", "harness", "environment", "recipe", "analyzer", "protocol" or "local model".
        name: What was asked for.
        known: Every id there is.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"unknown {kind} {name!r}{did_you_mean(name, self.known)}")


class NestedLoopError(ConfigurationError):
    """A synchronous entry point was called while an event loop runs in this thread."""


class PreflightError(AgentCompassError, RuntimeError):
    """Something that the run needs is not there: an engine, an image, a key, disk space, data, an unlocked run directory."""

    exit_code = 3


class EvaluationError(AgentCompassError):
    """A run ended without a complete, trustworthy score.

    Args:
        message: What happened.
        hint: How to go on, usually the command that finishes what is missing.
        result: The result dictionary as far as the run got, or None.
        paths: Where its files are, by role ("run_dir", ...).
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        result: Mapping[str, Any] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.result = result
        self.paths = dict(paths or {})


class EvaluationFailedError(EvaluationError, RuntimeError):
    """The run ended, but coverage is below `min_coverage` or the benchmark could not load."""


class EvaluationTimeoutError(EvaluationError, TimeoutError):
    """`timeout_seconds` is over; what had finished is on disk."""

    exit_code = 124


class StoreError(AgentCompassError, RuntimeError):
    """Results could not be written or read: disk full, a foreign or newer file."""


class InfraError(AgentCompassError, RuntimeError):
    """Raised by a component when an attempt cannot be judged; the attempt's verdict is `infra`.

    Args:
        message: What failed, for a person.
        code: A stable kebab-case name of the cause, by which failures are grouped.
        retryable: False when another try cannot help (a rejected key, a missing model).
        hint: What the user can do.
    """

    default_code: ClassVar[str] = "infra"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = True,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code or self.default_code
        self.retryable = retryable


class SandboxError(InfraError):
    """The sandbox failed: it could not be opened, died, or lost its connection."""

    default_code = "sandbox-failed"


class ModelError(InfraError):
    """The model endpoint failed after its own retries, or answered what is no answer."""

    default_code = "model-failed"


class EvaluatorError(InfraError):
    """The evaluator could not give a verdict."""

    default_code = "evaluator-failed"


def is_safe(error: BaseException) -> bool:
    """Whether the text of a foreign exception can be asked for: everybody who handles it may do so, some unprepared."""
    try:
        str(error), repr(error)
    except Exception:  # noqa: BLE001  # as anybody expects who asks
        return True
    except BaseException:  # noqa: BLE001  # as nobody does
        return False
    return True


def describe(error: BaseException) -> str:
    """Return `Type: text` for any exception, also one whose own text cannot be made."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001  # it is foreign code, and we are reporting its error
        text = f"(its text cannot be shown: {type(broken).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 task`, `1,200 tasks`; `many` is the plural if it is not `one` and an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known name nearest to `name`, or all of a short list, or ``."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f" (did you mean {near[0]!r}?)"
    if names and len(names) <= 12:
        return f" (known: {', '.join(names)})"
    return ""
