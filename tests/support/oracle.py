"""What a case of `support.chaos` must come to, worked out from its scripts alone, without any code of the engine."""

from __future__ import annotations

import itertools
import statistics

import attrs

from agentcompass.components.base import Where
from support.chaos import LINGERS

_CODES = {
    "raise": ("value-error", True),
    "exit": ("system-exit", True),
    "group": ("key-error", True),
    "quota": ("quota", True),
    "hopeless": ("hopeless", False),
    "stray": ("stray-cancellation", True),
}
_OPEN_CODES = dict.fromkeys(("raise", "exit", "group", "stray"), ("open-failed", True))
_JUNK = {"run": ("bad-outcome", False), "evaluate": ("bad-evaluation", False)}


@attrs.frozen
class Expected:
    """How one execution ends if nobody cancels it."""

    verdict: str
    value: float | None = None
    stopped_by: str | None = None
    phase: str | None = None
    code: str | None = None
    retryable: bool = False
    will_retry: bool = False


class _Ended(Exception):
    def __init__(self, phase, code, retryable):
        self.expected = Expected("infra", phase=phase, code=code, retryable=retryable)


class _Walk:
    """One execution, with a clock that starts when a sandbox opens."""

    def __init__(self, case, script):
        self.case, self.script = case, script
        self.clock, self.dies_at, self.is_whole = 0.0, None, True

    def ends(self):
        try:
            return self._ends()
        except _Ended as ended:
            return ended.expected

    def _ends(self):
        where, boxed = self.case.where, self.case.is_agent_boxed or self.case.where is Where.REUSE
        if (how := self.script.act("plan").how) != "fine":
            raise _Ended("open", *_CODES[how])
        if boxed:
            self._open()
        self._phase("prepare")
        is_late = self._phase("run", may_be_late=True)
        if boxed:
            self._phase("collect")
        if where is not Where.REUSE:
            self.dies_at = None  # that sandbox is closed now
        if where is Where.FRESH:
            self._open()
        self._phase("evaluate")
        is_right = self.script.is_right and self.is_whole and not is_late
        return Expected("graded", value=float(is_right), stopped_by="timeout" if is_late else None)

    def _open(self):
        act = self.script.act("open")
        self.dies_at = None
        self._phase("open")
        self.clock, self.dies_at = 0.0, self.script.dies_after
        return act

    def _phase(self, phase, *, may_be_late=False):
        """Whether it was late, where that is no failure."""
        act, limit = self.script.act(phase), self.case.limit_seconds
        is_late = act.how == "hang" or act.seconds > limit
        lasts = limit if is_late else act.seconds
        if self.dies_at is not None and self.clock + lasts > self.dies_at:
            raise _Ended(phase, "sandbox-died", True)
        self.clock += lasts + (LINGERS if is_late and act.how == "linger" else 0)
        if is_late and act.how == "swallow" and phase != "open":
            self.is_whole &= phase not in {"run", "evaluate"}
            return False
        if is_late and may_be_late:
            return True
        if is_late:
            raise _Ended(phase, f"{phase}-timeout", True)
        if act.how in {"junk", "nan"}:
            raise _Ended(phase, *_JUNK[phase])
        codes = _CODES | _OPEN_CODES if phase == "open" else _CODES
        if act.how in codes:
            raise _Ended(phase, *codes[act.how])
        return False


def executions(case, task, attempt):
    """Every execution of one attempt, in order, if nobody cancels."""
    history = []
    for number in range(1, case.max_retries + 2):
        ends = _Walk(case, case.script(task, attempt, number)).ends()
        again = ends.verdict == "infra" and number <= case.max_retries
        again = again and (ends.retryable or any(p in ends.code for p in case.patterns))
        history.append(attrs.evolve(ends, will_retry=again))
        if not again:
            break
    return history


def planned(case):
    """Every execution of a whole request, by task and attempt, in order, if nobody cancels."""
    found = {}
    for task in (f"t{n}" for n in range(case.tasks)):
        for attempt in range(1, case.k + 1):
            found[task, attempt] = executions(case, task, attempt)
            if case.strategy == "pass" and found[task, attempt][-1].value == 1.0:
                break
    return found


@attrs.frozen
class Scores:
    """The numbers of a report."""

    value: float
    graded_value: float | None
    bounds: tuple[float, float]
    coverage: float
    counts: dict[str, int]
    pass_at_k: dict[str, float | None]


def scores(case, final):
    """Scores from the final verdict of each attempt: (task, attempt) -> (verdict, value)."""
    rows = [
        [final.get((f"t{n}", a), ("skipped", None)) for a in range(1, case.k + 1)]
        for n in range(case.tasks)
    ]
    verdicts = [verdict for row in rows for verdict, _ in row]
    counts = {v: verdicts.count(v) for v in ("graded", "infra", "cancelled", "skipped")}
    counts["planned"] = case.tasks * case.k
    values = [[value for _, value in row] for row in rows]
    if case.strategy == "pass":
        units = [_decided(row) for row in values]
        rates = {str(j): _mean([_decided(row[:j]) for row in values]) for j in range(1, case.k + 1)}
    else:
        units = [value for row in values for value in row]
        rates = {str(j): _pass_at(values, j) for j in range(1, case.k + 1)}
    known = [unit for unit in units if unit is not None]
    missing = len(units) - len(known)
    return Scores(
        value=sum(known) / len(units),
        graded_value=statistics.fmean(known) if known else None,
        bounds=(sum(known) / len(units), (sum(known) + missing) / len(units)),
        coverage=len(known) / len(units),
        counts=counts,
        pass_at_k=rates if case.k > 1 else {},
    )


def _decided(row):
    """1 as soon as an attempt succeeded, 0 when all have failed, else None."""
    if 1.0 in row:
        return 1.0
    return None if None in row else 0.0


def _pass_at(values, j):
    """The share of all choices of j judged attempts that hold a success; None if a task has fewer."""
    shares = []
    for row in values:
        judged = [value for value in row if value is not None]
        choices = list(itertools.combinations(judged, j))
        if not choices:
            return None
        shares.append(statistics.fmean(max(choice) for choice in choices))
    return statistics.fmean(shares)


def _mean(values):
    return None if None in values else statistics.fmean(values)
