"""What a row of a SWE-bench data set says, checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from agentcompass.components.base import Task
from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.spec.problems import Problems

MAX_PROBLEMS: Final = 20
"""Rows with problems after which a file is of another kind."""
_TEXTS: Final = ("instance_id", "repo", "base_commit", "problem_statement", "patch")
_OFFICIAL_TEXTS: Final = ("eval_script", "log_parser", "eval_type")
"""What the official package grades by, since version 5 of it."""
_LISTS: Final = ("FAIL_TO_PASS", "PASS_TO_PASS")
_METADATA: Final = ("repo", "version", "base_commit", "created_at", "difficulty")
_IMAGES: Final = ("image", "image_name", "docker_image")
"""Under which name a row names its image, if it does."""


@frozen(kw_only=True)
class Instance:
    """An issue with its repository and its tests."""

    id: str
    repo: str
    base_commit: str
    problem_statement: str
    patch: str
    """The reference solution."""
    image: str | None
    official: Mapping[str, JSON]
    """What the official package is given."""


def tasks_of(rows: Iterable[Mapping[str, Any]], where: str) -> list[Task]:
    """Return a task for each row.

    Args:
        rows: As published.
        where: They are from, for messages.

    Raises:
        ConfigurationError: A row lacks something, or two have one id.
    """
    problems, tasks = Problems(), dict[str, Task]()
    for number, row in enumerate(rows, 1):
        faults = list(_faults(row))
        if not faults and row["instance_id"] in tasks:
            faults = [f"there are two rows with the id {row['instance_id']!r}"]
        for fault in faults:
            problems.add(where, f"row {number}", fault)
        if faults:
            if len(problems) >= MAX_PROBLEMS:
                break
            continue
        task = _task(row)
        tasks[task.id] = task
    problems.raise_if_any()
    return list(tasks.values())


def check_parsers(tasks: Iterable[Task], known: frozenset[str], where: str) -> None:
    """Check that the tests' output can be read: nothing else would notice before they have been run.

    Raises:
        ConfigurationError: A log parser is not among those that are known.
    """
    problems = Problems()
    for task in tasks:
        name = task.data.official["log_parser"]
        if name not in known:
            sentence = f"names the log parser {name!r}, which the package swebench does not have"
            problems.add(where, task.id, sentence)
    problems.raise_if_any()


def _faults(row: Mapping[str, Any]) -> Iterable[str]:
    """Say what a row lacks."""
    if missing := [name for name in _TEXTS if not _is_text(row.get(name))]:
        yield f"has no text {', '.join(missing)}"
    if missing := [name for name in _OFFICIAL_TEXTS if not _is_text(row.get(name))]:
        yield (
            f"has no {', '.join(missing)}, by which the package swebench grades since its version 5: take the data of "
            "https://huggingface.co/SWE-bench, not an older copy"
        )
    for name in _LISTS:
        if _names(row.get(name)) is None:
            yield f"has a {name} that is no list of names"
    if _names(row.get("FAIL_TO_PASS")) == []:
        yield "has an empty FAIL_TO_PASS: no test would tell whether it is solved"
    if any(_assets(row.get("image_assets"))):
        yield "has image_assets: SWE-bench Multimodal is not supported"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _names(value: object) -> list[str] | None:
    """The names of tests, which some copies of the data have as JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return None
    return list(value)


def _as_shells_read(script: str) -> str:
    """A script whose every line ends as on Windows, as a shell needs it; patches inside of others are left as they are."""
    lines = script.split("\n")
    if not all(line.endswith("\r") for line in lines if line):
        return script
    return "\n".join(line.removesuffix("\r") for line in lines)


def _assets(value: object) -> Iterable[object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return ()
    return value.values() if isinstance(value, dict) else ()


def _task(row: Mapping[str, Any]) -> Task:
    name = row["instance_id"]
    official = {
        "instance_id": name,
        "repo": row["repo"],
        "version": str(row.get("version") or ""),
        **{key: row[key] for key in _OFFICIAL_TEXTS},
        "eval_script": _as_shells_read(row["eval_script"]),
        **{key: _names(row[key]) for key in _LISTS},
    }
    instance = Instance(
        id=name,
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        patch=row["patch"],
        image=next((row[key] for key in _IMAGES if _is_text(row.get(key))), None),
        official=official,
    )
    metadata = {key: str(row[key]) for key in _METADATA if row.get(key)}
    return Task(id=name, category=row["repo"], metadata=metadata, data=instance)
