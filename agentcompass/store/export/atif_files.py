"""Writes the attempts of a run as ATIF documents: `<task>/attempt-<n>.json`, images beside them."""

from __future__ import annotations

import json
from pathlib import Path

from agentcompass._version import __version__
from agentcompass.records import JSON
from agentcompass.store.export.atif import LEFT_OUT, About, Document, document
from agentcompass.store.export.origins import LostStepsError, Origins
from agentcompass.store.export.result import Exported, Missing
from agentcompass.store.files import explained, make_directory, replace_file
from agentcompass.store.info import RunInfo
from agentcompass.store.jsonl import CorruptLine, plain, to_line
from agentcompass.store.layout import safe_name
from agentcompass.store.reader import StoredRun, final_records


def write_atif(run: StoredRun, directory: Path) -> Exported:
    """Write the execution that is the verdict of each attempt.

    Raises:
        StoreError: The run cannot be read, or a file cannot be written.
    """
    corrupt: list[CorruptLine] = []
    origins, about = Origins(run), about_run(run.info)
    missing: list[Missing] = []
    files = 0
    for record in final_records(run.records(corrupt.append)).values():
        path = directory / safe_name(record.task_id) / f"attempt-{record.attempt}.json"
        with explained("read", run.paths.run_dir):
            try:
                steps = list(origins.steps(record, LEFT_OUT))
            except LostStepsError as error:
                lost = Missing(task_id=record.task_id, attempt=record.attempt, reason=str(error))
                missing.append(lost)
                continue
        _write(path, document(record, steps, about, images=f"images/attempt-{record.attempt}"))
        files += 1
    return Exported(
        directory=directory, files=files, missing=tuple(missing), corrupt_lines=len(corrupt)
    )


def about_run(info: RunInfo) -> About:
    """Return what all documents of a run have in common."""
    harness, model = _mapping(info.request.get("harness")), _mapping(info.request.get("model"))
    name = str(harness.get("id", "unknown"))
    components = _mapping(info.versions.get("components"))
    own = str(components.get(f"harness:{name}", "1"))
    return About(
        run_id=info.run_id,
        agent=name,
        agent_version=f"{info.versions.get('agentcompass', __version__)}+{own}",
        model=str(model["id"]) if model.get("id") else None,
        benchmark=str(_mapping(info.request.get("benchmark")).get("id", "unknown")),
        agent_params=_mapping(harness.get("params")),
    )


def _mapping(value: JSON) -> dict[str, JSON]:
    return dict(value) if isinstance(value, dict) else {}


def _write(path: Path, made: Document) -> None:
    text = json.dumps(plain(made.value), indent=1, ensure_ascii=False, allow_nan=False)
    with explained("write", path):
        make_directory(path.parent)
        for name, content in made.images.items():
            make_directory((path.parent / name).parent)
            replace_file(path.parent / name, content, sync=False)
        replace_file(path, to_line(text), sync=False)
