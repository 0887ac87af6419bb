"""Where everything stands in a results directory: one function or property a path."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentcompass.data import frozen

MAX_NAME_BYTES: Final = 120
_HASH_DIGITS: Final = 12
_AS_IT_IS: Final = re.compile(r"[A-Za-z0-9_+=@][A-Za-z0-9._+=@,-]*(?<!\.)")
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that no file may have on Windows, where people unpack results, too."""


def safe_name(text: str, *, keep_case: bool = False) -> str:
    """Return a readable file name for any text; different texts give different names.

    A text that is a good name already stays as it is. Any other is made one and gets `~` and 12 digits of its
    SHA-256, which no unaltered name can look like, since none contains `~`.

    Args:
        text: Anything: path separators, `..`, control characters, any script, any length.
        keep_case: Accept capitals as they are. Otherwise they count as altered, so that `A` and `a` have two files
            on file systems that take them for one.

    Returns:
        A name of at most 120 bytes in UTF-8 that is not hidden, not `.` or `..`, and has no separator.
    """
    is_good = (
        _AS_IT_IS.fullmatch(text) is not None
        and _RESERVED.fullmatch(text) is None
        and len(text) <= MAX_NAME_BYTES
        and (keep_case or text == text.lower())
    )
    if is_good:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_DIGITS]
    start = unicodedata.normalize("NFKC", text[:MAX_NAME_BYTES])
    readable = "".join(c if c.isalnum() or c in "._+=@,-" else "_" for c in start)
    room = MAX_NAME_BYTES - _HASH_DIGITS - 1
    cut = readable.encode(errors="replace")[:room].decode(errors="ignore")
    return f"{cut.lstrip('.,-') or '_'}~{digest}"


def run_dir(results_dir: Path, run_name: str | None, namespace: str, run_id: str) -> Path:
    """Return the directory of a run: `<results_dir>/[<run_name>/]<namespace>/<run_id>`.

    Args:
        results_dir: The root of all results.
        run_name: A folder in between, or None.
        namespace: `<model>_<benchmark>_<harness>`, or the request's name in a launch.
        run_id: Unique within the namespace.
    """
    return namespace_dir(results_dir, run_name, namespace) / safe_name(run_id, keep_case=True)


def namespace_dir(results_dir: Path, run_name: str | None, namespace: str) -> Path:
    """Return the directory in which all runs of one kind stand side by side."""
    names = [namespace] if run_name is None else [run_name, namespace]
    return results_dir.joinpath(*(safe_name(name, keep_case=True) for name in names))


def orchestration_dir(results_dir: Path, name: str) -> Path:
    """Return where `orchestration.json` of a launch stands; `name` is its name or id."""
    return results_dir / safe_name(name, keep_case=True)


@frozen
class RunPaths:
    """The files of one run."""

    run_dir: Path

    @property
    def run_file(self) -> Path:
        """What the run is and how it stands: `store.info.RunInfo`."""
        return self.run_dir / "run.json"

    @property
    def plan_file(self) -> Path:
        """What is to be done, written once: `store.info.RunPlan`."""
        return self.run_dir / "plan.json"

    @property
    def journal_file(self) -> Path:
        """One line per finished execution, append-only: the source of truth."""
        return self.run_dir / "attempts.jsonl"

    @property
    def events_file(self) -> Path:
        """Progress events, as they were told."""
        return self.run_dir / "events.jsonl"

    @property
    def metrics_file(self) -> Path:
        """Scores, for programs."""
        return self.run_dir / "metrics.json"

    @property
    def summary_file(self) -> Path:
        """Scores, for people."""
        return self.run_dir / "summary.md"

    @property
    def findings_file(self) -> Path:
        """What analyzers noticed, a line for each execution they have something to say about."""
        return self.run_dir / "analysis.jsonl"

    @property
    def analysis_file(self) -> Path:
        """The findings summed up: what stands under `analysis` in `metrics_file`."""
        return self.run_dir / "analysis.json"

    @property
    def log_file(self) -> Path:
        """Log lines of this run."""
        return self.run_dir / "run.log"

    @property
    def lock_file(self) -> Path:
        """Held by the one process that writes."""
        return self.run_dir / "lock"

    @property
    def leases_dir(self) -> Path:
        """Sandboxes that may exist."""
        return self.run_dir / "leases"

    @property
    def tasks_dir(self) -> Path:
        """What attempts left, by task."""
        return self.run_dir / "tasks"

    def make_dir(self, directory: Path) -> None:
        """Make a directory of this run, and what is between; never the run's own, which somebody may have removed.

        Raises:
            OSError: It cannot be made; FileNotFoundError if the run is gone.
        """
        between = directory.relative_to(self.run_dir).parts
        for depth in range(1, len(between) + 1):
            self.run_dir.joinpath(*between[:depth]).mkdir(exist_ok=True)

    def attempt_dir(self, task_id: str, attempt: int) -> Path:
        """What one attempt left; exists only when there is something to keep."""
        return self.tasks_dir / safe_name(task_id) / f"attempt-{attempt}"

    @property
    def trajectories_file(self) -> Path:
        """The steps of executions that had few of them, a line for each."""
        return self.run_dir / "trajectories.jsonl"

    def trajectory_file(self, task_id: str, attempt: int, execution: int) -> Path:
        """The steps of one execution that has more than a few, streamed while it runs."""
        name = _numbered("trajectory", execution, "jsonl")
        return self.attempt_dir(task_id, attempt) / name

    def answer_file(self, task_id: str, attempt: int, execution: int) -> Path:
        """The full answer, when it is too long for the journal."""
        return self.attempt_dir(task_id, attempt) / _numbered("answer", execution, "txt")


def _numbered(stem: str, execution: int, suffix: str) -> str:
    return f"{stem}.{suffix}" if execution == 1 else f"{stem}-{execution}.{suffix}"


def find_run_dirs(results_dir: Path) -> Iterator[Path]:
    """Yield every run directory below a root, or the root itself if it is one, in no order.

    It goes as deep as a run directory can be and never into one: what agents leave there is not ours to believe.
    """
    return _find(results_dir, depth=2)


def _find(directory: Path, depth: int) -> Iterator[Path]:
    paths = RunPaths(directory)
    try:
        is_run = paths.run_file.exists() or paths.leases_dir.exists()
        below = [] if is_run or depth < 0 else list(directory.iterdir())
    except OSError:  # no directory, not ours to read, or removed at this moment
        return
    if is_run:
        yield directory
    for path in below:
        yield from _find(path, depth - 1)
