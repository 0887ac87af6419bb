"""The evaluator's sandbox: the patch applied, the tests run, and the official package's word on what they said.

The order of steps is that of `swebench.harness.run_evaluation.run_instance` of the package's version 5.0.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agentcompass.components.base import Evaluation, ExecResult, KiB, MiB, Session
from agentcompass.components.benchmarks.swebench import official
from agentcompass.components.benchmarks.swebench.instances import Instance
from agentcompass.components.benchmarks.swebench.repository import OURS, PATCH, Collected
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError
from agentcompass.records import JSON, Metric

METRICS: Final = (
    Metric(name="resolved", primary=True),
    Metric(name="applied"),
    Metric(name="submitted"),
    Metric(name="fail_to_pass", kind="scalar"),
    Metric(name="pass_to_pass", kind="scalar"),
)
"""Whether the issue is solved; whether there was a patch that could be applied; whether there was a patch at all; which part of
the tests that should pass now do, and of those that should still pass."""

APPLY_COMMANDS: Final = (
    ("git", "apply", "--verbose"),
    ("git", "apply", "--verbose", "--3way"),
    ("git", "apply", "--verbose", "--reject"),
    ("patch", "--batch", "--forward", "--fuzz=5", "-p1", "-i"),
)
"""Tried one after the other."""
MAX_LOG_BYTES: Final = 64 * MiB
"""Of the tests' output that is graded, head and tail; that of real tests is a few megabytes at most."""
KEPT_LOG_BYTES: Final = 8 * MiB
"""Of it that is kept with the attempt, head and tail."""
APPLY_SECONDS: Final = 120.0
"""For one way of applying a patch."""
MARGIN_SECONDS: Final = 300.0
"""For all but the tests."""
_PRISTINE: Final = ("sh", "-c", "git checkout -- . ; git clean -fd")
_ONE_STREAM: Final = ("sh", "-c", 'exec /bin/bash "$1" 2>&1', "sh")
_SCRIPT: Final = f"{OURS}/eval.sh"
_SHOWN_NAMES: Final = 20
_SHOWN_TEXT: Final = 2000


@frozen(kw_only=True)
class Applied:
    """How applying a patch went."""

    command: str | None
    """What did it; None: nothing could."""
    output: str
    """Of the last try."""


async def judge(
    instance: Instance,
    left: Collected,
    session: Session,
    *,
    directory: str,
    test_timeout_seconds: float,
) -> Evaluation:
    """Apply a patch, run the tests, and grade what they said.

    Args:
        instance: With its tests.
        left: What an agent left.
        session: A sandbox that no agent has touched.
        directory: Where the repository is in it.
        test_timeout_seconds: After which the tests are ended, and have failed.

    Raises:
        EvaluatorError: The tests could not be run or graded: no fault of the patch.
    """
    details: dict[str, JSON] = {"left_out": list(left.left_out)} if left.left_out else {}
    if left.too_large_bytes is not None:
        return _zero("patch too large", {**details, "bytes": left.too_large_bytes}, submitted=True)
    if left.is_empty:
        return _zero("empty patch", details)
    applied = await _apply(session, directory)
    if applied.command is None:
        output = applied.output.strip()[-_SHOWN_TEXT:]
        return _zero("patch does not apply", {**details, "output": output}, submitted=True)
    details["applied_with"] = applied.command
    ran = await _run_tests(instance, session, directory, test_timeout_seconds)
    details["test_seconds"] = round(ran.duration, 1)
    files = {"test_output.txt": _kept(ran.stdout)}
    if ran.timed_out:
        details["test_timeout_seconds"] = test_timeout_seconds
        return _zero("tests timed out", details, applied=True, submitted=True, files=files)
    report = await official.report_on(instance, ran.stdout)
    files["report.json"] = json.dumps(report, indent=1).encode()
    return _verdict(report, details, files)


async def _apply(session: Session, directory: str) -> Applied:
    """Apply the patch in one of the official ways, each from a pristine tree."""
    output = ""
    for number, command in enumerate(APPLY_COMMANDS):
        if number:  # what failed may have been done in part
            await session.exec(_PRISTINE, cwd=directory, timeout=APPLY_SECONDS)
        done = await _try(session, (*command, PATCH), directory)
        output = done.stdout + done.stderr
        if done.returncode == 0:
            return Applied(command=" ".join(command), output=output)
    check = await _try(session, ("git", "apply", "--check", "--reverse", PATCH), directory)
    if check.returncode == 0:  # all of them failed, and yet it is all there
        return Applied(command=" ".join(APPLY_COMMANDS[-1]), output=output)
    return Applied(command=None, output=output)


async def _try(session: Session, command: tuple[str, ...], directory: str) -> ExecResult:
    done = await session.exec(command, cwd=directory, timeout=APPLY_SECONDS, max_output=256 * KiB)
    if done.timed_out:
        raise EvaluatorError(
            f"`{command[0]}` was not done with the patch after {APPLY_SECONDS:g} s",
            code="apply-timeout",
        )
    if command[0] == "git" and done.returncode in {126, 127}:
        raise EvaluatorError(
            f"the sandbox has no git in {directory}: {done.stderr.strip()[-_SHOWN_TEXT:]}",
            code="git-missing",
            retryable=False,
        )
    return done


async def _run_tests(
    instance: Instance, session: Session, directory: str, timeout_seconds: float
) -> ExecResult:
    """Run the official script; both outputs are in `stdout`, in the order in which they were written."""
    await session.write_text(_SCRIPT, await official.script_of(instance), mode=0o755)
    ran = await session.exec(
        (*_ONE_STREAM, _SCRIPT),
        cwd=directory,
        timeout=timeout_seconds,
        max_output=MAX_LOG_BYTES,
    )
    if ran.timed_out:
        return ran
    if ran.returncode in {126, 127} and official.START_MARK not in ran.stdout:
        raise EvaluatorError(
            "the sandbox has no /bin/bash, which the tests are run with",
            code="bash-missing",
            retryable=False,
            hint="Use the image that the data names.",
        )
    for mark, words, code in (
        (official.START_MARK, "did not start", "tests-did-not-start"),
        (official.END_MARK, "were cut off", "tests-cut-off"),
    ):
        if mark not in ran.stdout and not ran.truncated:
            tail = ran.stdout.strip()[-_SHOWN_TEXT:]
            raise EvaluatorError(
                f"the tests {words} (exit code {ran.returncode}); the end of their log: {tail}",
                code=code,
            )
    return ran


def _verdict(
    report: Mapping[str, Any], details: dict[str, JSON], files: Mapping[str, bytes]
) -> Evaluation:
    """Turn the official report into an evaluation."""
    if report.get("infra_failure"):
        reason = str(report.get("infra_failure_reason"))
        raise EvaluatorError(
            f"the tests could not be run for a fault of their environment: {reason}",
            code=reason.replace("_", "-"),
        )
    if "tests_status" not in report:
        if "infra_failure_reason" in report:
            details["reason"] = report["infra_failure_reason"]
        return _zero("no test results", details, applied=True, submitted=True, files=files)
    is_resolved = bool(report["resolved"])
    metrics = {"resolved": float(is_resolved), "applied": 1.0, "submitted": 1.0}
    for name in ("fail_to_pass", "pass_to_pass"):
        status = report["tests_status"][name.upper()]
        passed, failed = len(status["success"]), list(status["failure"])
        metrics[name] = passed / (passed + len(failed)) if passed or failed else 1.0
        details[name] = {"passed": passed, "failed": len(failed), "failures": failed[:_SHOWN_NAMES]}
    result = "resolved" if is_resolved else "tests failed"
    return Evaluation(metrics=metrics, details={"result": result, **details}, files=files)


def _zero(
    result: str,
    details: Mapping[str, JSON],
    *,
    applied: bool = False,
    submitted: bool = False,
    files: Mapping[str, bytes] | None = None,
) -> Evaluation:
    metrics = dict.fromkeys((metric.name for metric in METRICS), 0.0)
    metrics |= {"applied": float(applied), "submitted": float(submitted)}
    return Evaluation(metrics=metrics, details={"result": result, **details}, files=files or {})


def _kept(log: str) -> bytes:
    data = log.encode(errors="replace")
    if len(data) <= KEPT_LOG_BYTES:
        return data
    half = KEPT_LOG_BYTES // 2
    marker = f"\n[... {len(data) - 2 * half} bytes left out ...]\n".encode()
    return data[:half] + marker + data[-half:]
