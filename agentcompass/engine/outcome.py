"""How a request ended: its status, its error with the way to go on, and the result its caller gets."""

from __future__ import annotations

from collections.abc import Mapping

from agentcompass.data import frozen
from agentcompass.errors import (
    EvaluationError,
    EvaluationFailedError,
    EvaluationTimeoutError,
    StoreError,
)
from agentcompass.records import JSON, RequestOutcome, RequestStatus
from agentcompass.store.journal import JournalLostError
from agentcompass.store.layout import RunPaths
from agentcompass.store.run import RunInfo


@frozen(kw_only=True)
class Share:
    """How much of what was planned was graded."""

    coverage: float
    """Graded over planned attempts, 0 to 1."""
    min_coverage: float
    """The least that makes a score."""
    is_any: bool
    """Whether there is anything to reuse."""
    is_over_budget: bool
    """Whether attempts were skipped since they did not fit into the budget."""


def verdict(
    info: RunInfo,
    graded: Share,
    ended: RequestStatus | None,
    store_error: StoreError | None,
    *,
    has_journal: bool,
) -> tuple[RequestStatus, EvaluationError | None]:
    """Say how a run ended and what to raise for it.

    Args:
        info: Of the run.
        graded: How much of it was.
        ended: How it was ended from outside; None when every attempt has its verdict.
        store_error: Why records could not be written any more, if that is so; perhaps those of another request.
        has_journal: Whether what this run had recorded is still there.

    Returns:
        The status, and the error without result and paths; None when completed.
    """
    resume = f"Finish the rest with the same command and --reuse: it takes over run {info.run_id}."
    if info.regraded_from is not None:
        resume = "Evaluate the earlier run again with the same command."
    elif not graded.is_any:
        resume = "Nothing was graded: run the same command again."
    if store_error is not None:
        is_full = not isinstance(store_error, JournalLostError)
        kept = f"What had finished is on disk. {'Make room first. ' if is_full else ''}{resume}"
        return "failed", EvaluationFailedError(
            f"results could not be written: {store_error.message}",
            hint=kept if has_journal else store_error.hint,
        )
    if ended == "timed_out":
        text = f"timeout_seconds is over with {graded.coverage:.1%} of the attempts graded"
        return ended, EvaluationTimeoutError(text, hint=resume)
    if ended is not None:
        text = f"the run was {ended.replace('_', ' ')} with {graded.coverage:.1%} of the attempts graded"
        return ended, EvaluationFailedError(text, hint=resume)
    if graded.coverage < graded.min_coverage and graded.is_over_budget:
        text = f"the budget was enough for {graded.coverage:.1%} of the attempts, less than min_coverage ({graded.min_coverage:g})"
        accept = f"To take what there is for a result, give --min-coverage {graded.coverage:.2g} or less."
        return "failed", EvaluationFailedError(text, hint=f"{resume} {accept}")
    if graded.coverage < graded.min_coverage:
        text = f"only {graded.coverage:.1%} of the attempts were graded, less than min_coverage ({graded.min_coverage:g})"
        return "failed", EvaluationFailedError(
            text, hint=f"Mend what made the others fail. {resume}"
        )
    return "completed", None


def outcome(
    name: str, status: RequestStatus, error: EvaluationError | None, result: Mapping[str, JSON]
) -> RequestOutcome:
    """Return the outcome of a run that was summed up; its error carries the result."""
    paths: Mapping[str, str] = result["paths"]
    if error is not None:
        error.result, error.paths = result, dict(paths)
    return RequestOutcome(
        name=name,
        status=status,
        result=result,
        error=str(error) if error is not None else None,
        paths=paths,
        exception=error,
    )


def outcome_without_summary(
    name: str, status: RequestStatus, paths: RunPaths, why: str
) -> RequestOutcome:
    """Return the outcome of a run whose scores could not be computed: its records are still there, if anybody left them."""
    directory = str(paths.run_dir)
    kind = EvaluationTimeoutError if status == "timed_out" else EvaluationFailedError
    error = kind(
        f"the run could not be summed up: {why}",
        hint=f"Its records are on disk: `agentcompass summary {directory}` computes the scores."
        if paths.journal_file.exists()
        else f"Its records are gone: there is no {paths.journal_file}.",
        paths={"run_dir": directory},
    )
    return RequestOutcome(
        name=name, status=status, error=str(error), paths=error.paths, exception=error
    )
