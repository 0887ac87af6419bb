"""A user's regular expressions on untrusted text, so that a catastrophic one cannot hang the run."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from agentcompass.components.benchmarks.scoring import MAX_CHARACTERS
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError

CPU_SECONDS: Final = 5
"""Processor time for the expressions of one task; honest ones need milliseconds."""
WALL_SECONDS: Final = 120.0
"""For a machine so busy that the processor time is not spent."""

_CHILD: Final = Path(__file__).with_name("regex_child.py")


@frozen(kw_only=True)
class Found:
    """What the expressions found."""

    extracted: str | None
    """The text that was searched: all of it, or what `extract` took out; None if that matched nothing."""
    matches: bool
    """Whether one of the patterns matches it."""


def fault_of(pattern: str) -> str | None:
    """Return what is wrong with a regular expression; None if nothing is."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as exc:
        return f"is no regular expression: {exc}"
    return None


async def search(
    text: str, *, extract: str | None, patterns: Sequence[str], ignore_case: bool
) -> Found:
    """Search the end of a text, at most its last `MAX_CHARACTERS`, in a process of its own.

    Args:
        text: What the agent wrote.
        extract: Takes the last match's first group (or whole match, without groups) as the text to search; None: all.
        patterns: What to look for.
        ignore_case: For all of them.

    Raises:
        EvaluatorError: The expressions took too long (code `regex-timeout`), or their process failed.
    """
    job = json.dumps(
        {
            "text": text[-MAX_CHARACTERS:],
            "extract": extract,
            "patterns": list(patterns),
            "ignore_case": ignore_case,
            "cpu_seconds": CPU_SECONDS,
        }
    )
    with trio.move_on_after(WALL_SECONDS):
        done = await trio.run_process(
            [sys.executable, "-I", "-S", "-B", str(_CHILD)],
            stdin=job.encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        if done.returncode == 0:
            return Found(**json.loads(done.stdout))
        if done.returncode not in {-signal.SIGXCPU, -signal.SIGKILL}:
            said = done.stderr.decode(errors="replace").split("\n")
            reason = next((line for line in reversed(said) if line.strip()), "")
            raise EvaluatorError(
                f"the regular expressions could not be run (exit code {done.returncode}): {reason[-500:]}"
            )
    raise EvaluatorError(
        f"the regular expressions took more than {CPU_SECONDS} s of processor time on this answer",
        code="regex-timeout",
        retryable=False,
        hint="Look for nested repetition, such as (a+)+, in the pattern.",
    )
