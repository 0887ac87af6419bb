"""What a reply asks for: keystrokes with waits, and whether the task is done. Both forms of a reply are read into this."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON

LONGEST_WAIT: Final = 60.0
"""Seconds; a longer wait is cut. Source: the documentation of Terminus 2."""
DEFAULT_WAIT: Final = 1.0
"""Seconds, where a reply does not say."""
_SHOWN: Final = 60


@frozen(kw_only=True)
class Command:
    """Keys to press, and how long to wait before the next ones, or before the screen is read."""

    keystrokes: str
    """Exactly as they are pressed, or the name of one key of tmux (`C-c`)."""
    duration: float = DEFAULT_WAIT
    """Seconds."""


@frozen(kw_only=True)
class Plan:
    """A reply, as far as it can be understood."""

    commands: tuple[Command, ...] = ()
    is_done: bool = False
    """The model says that the task is complete."""
    analysis: str = ""
    """What it says about where things stand."""
    warnings: tuple[str, ...] = ()
    """What was odd about the reply, though it could be followed."""
    error: str | None = None
    """Why nothing of it can be done; `commands` is empty then."""
    is_whole: bool = True
    """It ends where it should, rather than in the middle."""


Parser: TypeAlias = Callable[[str], Plan]


def refused(error: str, warnings: Sequence[str] = (), *, is_whole: bool = True) -> Plan:
    """Return the plan of a reply that cannot be followed."""
    return Plan(error=error, warnings=tuple(warnings), is_whole=is_whole)


def wait_of(asked: JSON, where: str, warnings: list[str]) -> float:
    """Return how long to wait, in 0..`LONGEST_WAIT`; what is no such number is reported and replaced.

    Args:
        asked: What the reply says; None: nothing.
        where: Which command that is, for the warning.
        warnings: Gets one.
    """
    try:
        seconds = float("nan" if isinstance(asked, bool) else asked)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if math.isnan(seconds):
        said = "no duration" if asked is None else f"a duration that is no number ({asked!s:.20})"
        warnings.append(f"{where} has {said}: {DEFAULT_WAIT:g} s was taken")
        return DEFAULT_WAIT
    if seconds < 0:
        warnings.append(f"{where} has a negative duration: there was no wait")
    if seconds > LONGEST_WAIT:
        warnings.append(f"{where} asks for a wait of more than {LONGEST_WAIT:g} s: it was cut")
    return min(max(0.0, seconds), LONGEST_WAIT)


def with_advice(plan: Plan) -> Plan:
    """Add warnings about commands that will run into each other: keys without a line end, and more keys behind them."""
    running_on = [
        f"command {number} does not end in a newline, so the keys of the next one follow on the same line:"
        f" {command.keystrokes[-_SHOWN:]!r}"
        for number, command in enumerate(plan.commands[:-1], 1)
        if _looks_like_a_line(command.keystrokes)
    ]
    return attrs.evolve(plan, warnings=(*plan.warnings, *running_on)) if running_on else plan


def _looks_like_a_line(keystrokes: str) -> bool:
    """Whether somebody has typed words and not pressed Enter, rather than a key of a program or a word of its own."""
    return " " in keystrokes.strip() and not keystrokes.endswith(("\n", "\r"))
