"""What analyzers noticed, on disk: `analysis.jsonl`, a line for each execution, and its summary `analysis.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcompass.data import frozen
from agentcompass.records import JSON, SCHEMA_VERSION, ExecutionRecord
from agentcompass.regular import read_regular
from agentcompass.store import codec, jsonl
from agentcompass.store.files import explained, replace_file
from agentcompass.store.jsonl import CorruptLine


@frozen(kw_only=True)
class StoredFinding:
    """A finding as a line of `analysis.jsonl` has it."""

    task_id: str
    """As in `attempts.jsonl`, and so the next two."""
    attempt: int
    """1..k."""
    execution: int
    """1 for the first try."""
    analyzer: str
    """The id of who noticed it."""
    label: str
    """What it is, from a small set of words."""
    detail: str = ""
    """This case, for people."""
    value: float | None = None
    """A figure, where there is one."""


def findings_line(
    record: ExecutionRecord, findings: Sequence[tuple[str, Mapping[str, JSON]]]
) -> dict[str, JSON]:
    """Return the line for one execution.

    Args:
        record: Of the execution.
        findings: Analyzer id, and `label` with what else there is of `detail` and `value`.
    """
    return {
        "task_id": record.task_id,
        "attempt": record.attempt,
        "execution": record.execution,
        "findings": [{"analyzer": analyzer, **finding} for analyzer, finding in findings],
    }


def read_findings(
    path: Path, on_corrupt: Callable[[CorruptLine], None] = lambda _line: None
) -> Iterator[StoredFinding]:
    """Yield all findings, line by line.

    Args:
        path: `analysis.jsonl`; one that is not there has no findings.
        on_corrupt: Told of every line that cannot be used; nothing of it is.

    Raises:
        StoreError: The file cannot be read.
    """
    with explained("read", path):
        for number, line in jsonl.read_lines(path, on_corrupt):
            try:
                findings = list(_findings(line))
            except ValueError as error:
                on_corrupt(CorruptLine(number=number, reason=str(error)[:200]))
            else:
                yield from findings


def _findings(line: JSON) -> Iterator[StoredFinding]:
    written = dict(codec.mapping(line, "the line"))
    items = written.pop("findings", None)
    if not isinstance(items, list):
        raise ValueError("findings is not an array")  # noqa: TRY004  # bad data, not a bad call
    for item in items:
        yield codec.build(StoredFinding, {**codec.mapping(item, "a finding"), **written})


def write_analysis(path: Path, data: Mapping[str, JSON]) -> None:
    """Replace `analysis.json`; what it is made of was read from `analysis.jsonl`, so no secret is in it.

    Raises:
        StoreError: It cannot be written.
    """
    with explained("write", path):
        line = jsonl.encode({"schema": SCHEMA_VERSION, **data})
        replace_file(path, line, sync=False)


def read_analysis(path: Path) -> dict[str, Any] | None:
    """Return what `write_analysis` wrote, without the schema; None if there is nothing that can be used."""
    try:
        data = jsonl.decode(read_regular(path))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA_VERSION:
        return None
    return data if _is_summary(data) else None


def _is_summary(data: Mapping[str, Any]) -> bool:
    """Whether pages can be made of it: it may have been edited, and nothing depends on it."""
    rows, notes = data.get("rows"), data.get("notes")
    return (
        isinstance(rows, list)
        and isinstance(notes, list)
        and all(isinstance(note, str) for note in notes)
        and all(isinstance(data.get(name), int) for name in ("analyzed", "left"))
        and all(isinstance(row, dict) and _is_row(row) for row in rows)
    )


def _is_row(row: Mapping[str, Any]) -> bool:
    texts = all(isinstance(row.get(name), str) for name in ("analyzer", "label", "detail"))
    examples = row.get("examples")
    return (
        texts
        and isinstance(row.get("count"), int)
        and isinstance(examples, list)
        and all(isinstance(example, dict) and "task_id" in example for example in examples)
    )
