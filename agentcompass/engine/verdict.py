"""From what a component returned or raised to a verdict. Pure.

An evaluation counts only if it is complete and sound; an exception of whatever kind becomes a `Failure` with the
phase it happened in. Neither can become a silent zero.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs
import trio

from agentcompass.components.base import AgentOutcome, Evaluation
from agentcompass.errors import EvaluatorError, InfraError, SandboxError, counted, describe
from agentcompass.records import Failure, Metric, Phase
from agentcompass.secrets import beginning

DIED: Final = "sandbox-died"
"""Code of a `SandboxError`: the sandbox broke while it was used."""
LARGEST: Final = 1e100
"""Magnitude of a metric: squares of it, summed over a million attempts, must still be numbers."""
MESSAGE_LENGTH: Final = 2000
"""Characters of an error's text that are kept in a record."""


@final
class SandboxBroke(SandboxError):  # noqa: N818  # it says what happened
    """A sandbox came to its end while it was used.

    Args:
        cause: Why, if its environment said so; a cause with a code of its own gives that, and whether to try again.
    """

    default_code = DIED

    def __init__(self, cause: BaseException | None) -> None:
        why = describe(cause) if cause else "its environment gave it up"
        text = f"the sandbox broke while it was used: {why}"
        if isinstance(cause, InfraError):
            super().__init__(text, code=cause.code, retryable=cause.retryable, hint=cause.hint)
        else:
            super().__init__(text)


@final
class StrayCancellation(InfraError):  # noqa: N818  # it names what happened
    """A component let the cancellation of a scope of its own escape."""

    def __init__(self) -> None:
        super().__init__(
            "a component let the cancellation of a scope of its own escape",
            code="stray-cancellation",
        )


def checked(evaluation: object, declared: Sequence[Metric]) -> Evaluation:
    """Return an evaluation with its metrics as floats, binary ones as 0.0 or 1.0.

    Raises:
        EvaluatorError: A declared metric is missing, another one is there, or a value is no number of its kind.
    """
    if not isinstance(evaluation, Evaluation):
        raise _bad(f"the evaluator returned {type(evaluation).__name__}, not an Evaluation")
    for name in ("metrics", "details"):
        if not isinstance(getattr(evaluation, name), Mapping):
            raise _bad(f"the evaluation's {name} are no mapping")
    given = dict(evaluation.metrics)
    metrics: dict[str, float] = {}
    for metric in declared:
        if metric.name not in given:
            raise _bad(f"the evaluator gave no value for metric {metric.name!r}")
        metrics[metric.name] = _number(metric, given.pop(metric.name))
    if given:
        names = ", ".join(sorted(map(repr, given)))
        raise _bad(f"the evaluator gave undeclared metrics: {names}")
    return attrs.evolve(evaluation, metrics=metrics)


def _number(metric: Metric, value: object) -> float:
    if not isinstance(value, (int, float)):
        raise _bad(f"metric {metric.name!r} is {type(value).__name__}, not a number")
    number = float(value)
    if not math.isfinite(number):
        raise _bad(f"metric {metric.name!r} is {number}")
    ends = [end for end in (metric.worst, metric.best) if end is not None]
    if len(ends) == 2 and not min(ends) <= number <= max(ends):
        raise _bad(
            f"metric {metric.name!r} is {number:g}, outside its scale {ends[0]:g} to {ends[1]:g}"
        )
    if abs(number) > LARGEST:
        raise _bad(f"metric {metric.name!r} is {number:g}, which no sum or variance can hold")
    if metric.kind == "binary" and number not in {0.0, 1.0}:
        raise _bad(f"metric {metric.name!r} is binary but its value is {number:g}")
    return number


def checked_outcome(outcome: object) -> AgentOutcome:
    """Return what a harness returned, if it is an outcome with fields of the right kinds.

    Raises:
        InfraError: It is not (`bad-outcome`).
    """
    if not isinstance(outcome, AgentOutcome):
        raise _bad_outcome(f"{type(outcome).__name__}, not an AgentOutcome")
    wanted: dict[str, Any] = {"answer": str | None, "stopped_by": str | None, "details": Mapping}
    for name, kind in wanted.items():
        value = getattr(outcome, name)
        if not isinstance(value, kind):
            raise _bad_outcome(f"an outcome whose {name} is {type(value).__name__}")
    return attrs.evolve(
        outcome, answer=_exact(outcome.answer), stopped_by=_exact(outcome.stopped_by)
    )


def _exact(text: str | None) -> str | None:
    """The text itself, without what a subclass makes of it: it is measured and written outside the attempt."""
    return None if text is None else str.__str__(text)


def _bad_outcome(problem: str) -> InfraError:
    return InfraError(f"the harness returned {problem}", code="bad-outcome", retryable=False)


def _bad(message: str) -> EvaluatorError:
    return EvaluatorError(message, code="bad-evaluation", retryable=False)


def failure_from(error: BaseException, phase: Phase) -> Failure:
    """Say what an exception means: the most telling one of a group, its code, and whether a retry may help."""
    leaf = most_telling(error)
    if isinstance(leaf, trio.Cancelled):
        leaf = StrayCancellation()
    text = describe(leaf)
    if isinstance(leaf, InfraError):
        own_words = text.partition(": ")[2] or text
        return Failure(
            phase=phase,
            code=str(leaf.code),
            message=beginning(own_words, MESSAGE_LENGTH),
            retryable=bool(leaf.retryable),
        )
    return Failure(phase=phase, code=_code(leaf), message=beginning(text, MESSAGE_LENGTH))


def with_causes(failure: Failure, used: Mapping[str, Mapping[str, Any]]) -> Failure:
    """Name in a failure's message what its sandboxes were refused, as far as that may be why.

    Args:
        failure: What happened.
        used: The figures of the sandboxes, by role; see `Session.usage`.
    """
    kills = sum(figures.get("oom_kills") or 0 for figures in used.values())
    if not kills:
        return failure
    text = f"{failure.message} (its memory was used up: {counted(kills, 'process', 'processes')} killed)"
    return attrs.evolve(failure, message=text)


def _code(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "disk-full"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(error).__name__).lower()


def most_telling(error: BaseException) -> BaseException:
    """Return the error that says most about a cause: the error itself, or one of its group."""
    leaves = list(_leaves(error))
    for kind in (InfraError, Exception, SystemExit, KeyboardInterrupt):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def has_interrupt(error: BaseException) -> bool:
    """Whether a KeyboardInterrupt is the error or anywhere in its group."""
    return any(isinstance(leaf, KeyboardInterrupt) for leaf in _leaves(error))


def is_sandbox_death(error: BaseException) -> bool:
    """Whether a sandbox broke while it was used: then even a grade from it means nothing."""
    return any(
        isinstance(leaf, SandboxBroke) or (isinstance(leaf, SandboxError) and leaf.code == DIED)
        for leaf in _leaves(error)
    )
