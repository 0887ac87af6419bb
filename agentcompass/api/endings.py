"""What callers get of a result: a dictionary, an exception, an exit code."""

from __future__ import annotations

from agentcompass.errors import EvaluationFailedError, EvaluationTimeoutError
from agentcompass.records import JSON, OrchestrationResult, RequestOutcome


def single_result(result: OrchestrationResult) -> dict[str, JSON]:
    """Return what `run_evaluation` returns, or raise what it raises.

    Args:
        result: Of an orchestration of one request.
    """
    raise_signal(result)
    (outcome,) = result.requests.values()
    if outcome.status == "completed":
        return dict(outcome.result or {})
    if outcome.exception is not None:
        raise outcome.exception
    kind = EvaluationTimeoutError if outcome.status == "timed_out" else EvaluationFailedError
    raise kind(
        outcome.error or f"the evaluation was {outcome.status}",
        result=outcome.result,
        paths=outcome.paths,
    )


def raise_signal(result: OrchestrationResult) -> None:
    """Raise what a signal that ended the run would have raised without us: KeyboardInterrupt, or SystemExit(143)."""
    from agentcompass.engine.control import EXIT_CODES  # noqa: PLC0415  # loaded by then

    if result.ended_by == "sigint":
        raise KeyboardInterrupt
    if result.ended_by in ("sigterm", "sighup"):
        raise SystemExit(EXIT_CODES[result.ended_by])


def exit_code(result: OrchestrationResult) -> int:
    """Return the process exit code for a result: 0 only if every request completed.

    Who ended the run early comes first (124, 130, 143); then, if all requests failed for one kind of reason, the
    code of that (2, 3); else 1.
    """
    from agentcompass.engine.control import EXIT_CODES  # noqa: PLC0415  # loaded by then

    if result.ended_by is not None and result.ended_by in EXIT_CODES:
        return EXIT_CODES[result.ended_by]
    codes = {_outcome_code(outcome) for outcome in result.requests.values()}
    return codes.pop() if len(codes) == 1 else 1


def _outcome_code(outcome: RequestOutcome) -> int:
    if outcome.status == "completed":
        return 0
    if outcome.status == "timed_out":
        return EvaluationTimeoutError.exit_code
    return getattr(outcome.exception, "exit_code", 1)
