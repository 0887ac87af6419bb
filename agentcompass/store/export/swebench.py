"""Writes the patches of a run as the predictions file of SWE-bench's own evaluation.

Source: `swebench.harness.utils.get_predictions_from_file` of the package swebench 5.0.2: a JSON object in each line with
`instance_id`, `model_name_or_path` and `model_patch`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

from agentcompass.records import ExecutionRecord
from agentcompass.regular import read_regular
from agentcompass.store.export.atif_files import about_run
from agentcompass.store.export.origins import LostStepsError, Origins
from agentcompass.store.export.result import Exported, Missing
from agentcompass.store.files import explained, replace_file
from agentcompass.store.jsonl import CorruptLine
from agentcompass.store.reader import StoredRun, final_records

PATCH_NAME: Final = "patch.diff"
"""How the artifact with the patch is called in a sandbox."""


class NoPatchError(Exception):
    """An attempt has no patch that could be written; the message says why."""


def write_swebench(run: StoredRun, directory: Path) -> Exported:
    """Write `predictions.jsonl`, or one such file for each attempt where tasks have several.

    Raises:
        StoreError: The run cannot be read, or a file cannot be written.
    """
    corrupt: list[CorruptLine] = []
    missing: list[Missing] = []
    origins, about = Origins(run), about_run(run.info)
    name = f"{about.agent}+{about.model}" if about.model else about.agent
    lines: defaultdict[int, list[str]] = defaultdict(list)
    for record in final_records(run.records(corrupt.append)).values():
        try:
            patch = _patch(record, origins)
        except NoPatchError as error:
            lost = Missing(task_id=record.task_id, attempt=record.attempt, reason=str(error))
            missing.append(lost)
            continue
        prediction = {
            "instance_id": record.task_id,
            "model_name_or_path": name,
            "model_patch": patch,
        }
        lines[record.attempt].append(json.dumps(prediction))
    for attempt, predictions in lines.items():
        several = run.plan.k > 1 or len(lines) > 1
        path = directory / (
            f"predictions-attempt-{attempt}.jsonl" if several else "predictions.jsonl"
        )
        with explained("write", path):
            replace_file(path, "".join(f"{line}\n" for line in predictions).encode(), sync=False)
    return Exported(
        directory=directory, files=len(lines), missing=tuple(missing), corrupt_lines=len(corrupt)
    )


def _patch(record: ExecutionRecord, origins: Origins) -> str:
    """Return the patch of an attempt.

    Raises:
        NoPatchError: There is none, or none that JSON can hold.
    """
    try:
        paths = origins.paths(record)
        if record.details.get("patch_from") == "answer":
            whole = paths.answer_file(record.task_id, record.attempt, record.execution)
            return whole.read_text(encoding="utf-8") if whole.is_file() else record.answer or ""
        kept = [path for name, path in record.artifacts.items() if Path(name).name == PATCH_NAME]
        if not kept:
            raise NoPatchError("it left no patch")  # beside the reading
        data = read_regular(paths.run_dir / kept[0])
    except LostStepsError as error:
        raise NoPatchError(str(error)) from None
    except OSError as error:
        raise NoPatchError(f"its patch cannot be read: {error.strerror}") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NoPatchError("its patch is not in UTF-8, which this format needs") from None
