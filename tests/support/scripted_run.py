"""Events of a run that never took place, for what watches runs."""

from __future__ import annotations

from agentcompass.progress import events
from agentcompass.records import Usage

START = 1_800_000_000.0


def prepared(planned=10, reused=0, request="demo", at=START, **more):
    return events.RunPrepared(
        at=at,
        request=request,
        run_id="r1",
        run_dir="results/demo/r1",
        planned=planned,
        reused=reused,
        metric="accuracy",
        **more,
    )


def started(task, attempt=1, execution=1, request="demo", at=START):
    return events.AttemptStarted(
        at=at, request=request, task=task, attempt=attempt, execution=execution
    )


def phase(task, name, attempt=1, detail="", request="demo", at=START):
    return events.PhaseStarted(
        at=at, request=request, task=task, attempt=attempt, phase=name, detail=detail
    )


def finished(
    task,
    score=1.0,
    *,
    attempt=1,
    execution=1,
    verdict="graded",
    code=None,
    message=None,
    will_retry=False,
    usage=None,
    request="demo",
    at=START,
):
    return events.AttemptFinished(
        at=at,
        request=request,
        task=task,
        attempt=attempt,
        execution=execution,
        verdict=verdict,
        score=score if verdict == "graded" else None,
        code=code,
        message=message,
        stopped_by=None,
        will_retry=will_retry,
        usage=usage or Usage(),
        wall_seconds=1.0,
    )


def failed(task, code="rate-limited", message="429 from the endpoint", **more):
    return finished(task, verdict="infra", code=code, message=message, **more)


def retried(task, code="rate-limited", request="demo", at=START):
    return events.ModelRetried(
        at=at,
        request=request,
        task=task,
        attempt=1,
        code=code,
        message="429",
        wait_seconds=2.0,
    )


def request_finished(
    status="completed", score=0.5, error=None, request="demo", at=START, run_dir="results/demo/r1"
):
    return events.RequestFinished(
        at=at,
        request=request,
        status=status,
        score=score,
        ci95=None if score is None else (0.2, 0.8),
        coverage=1.0,
        error=error,
        run_dir=run_dir,
    )
