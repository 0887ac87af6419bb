"""A directory of task directories: found, read, selected, and identified by what is in them. Blocking, for a thread."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from agentcompass.components.base import Task
from agentcompass.components.benchmarks.harbor.definition import Definition
from agentcompass.components.benchmarks.selection import (
    SELECTION,
    SelectionParams,
    check_names,
)
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, PreflightError, counted
from agentcompass.spec.problems import Problems

EVALUATION_SECONDS: Final = 300.0
"""For what an evaluation does beside running the tests: sending them, two rehearsals, looking at what they wrote."""
_CHUNK: Final = 1 << 20
_NAMED: Final = 5
"""Tasks that a remark names."""


@frozen(kw_only=True)
class DirectorySelection(SelectionParams):
    """Parameters that choose among task directories."""

    exclude_ids: tuple[str, ...] = attrs.field(default=(), metadata=SELECTION)
    """Task ids to leave out; their directories are not even read."""
    categories: tuple[str, ...] | None = attrs.field(default=None, metadata=SELECTION)
    """Run only tasks of these categories, at least one. None: all tasks."""
    difficulties: tuple[str, ...] | None = attrs.field(default=None, metadata=SELECTION)
    """Run only tasks of these difficulties (`easy`, `medium`, `hard`), at least one. None: all tasks."""


class Format(Protocol):
    """Reads task directories of one kind."""

    file: str
    """A directory with this file is a task."""

    def read(self, directory: Path) -> Definition | None:
        """Return what a directory says; None after a problem was noted."""
        ...


class FormatOf(Protocol):
    """Makes a format; see `task_directory.HarborFormat`."""

    file: str

    def __call__(
        self, variables: Mapping[str, str], problems: Problems, remarks: dict[str, list[str]]
    ) -> Format:
        """Make it."""
        ...


@frozen(kw_only=True)
class Wanted:
    """What is wanted of a directory."""

    where: str
    """The benchmark's name, for messages."""
    format_of: FormatOf
    selection: DirectorySelection
    variables: Mapping[str, str]
    """What `${NAME}` stands for in tasks."""
    only: frozenset[str] | None = None
    """Names of the directories that count; None: all."""


@frozen(kw_only=True)
class Contents:
    """What a directory has."""

    tasks: Sequence[Task]
    """Those selected, by name; `data` is a `Definition`."""
    count: int
    """Of all there are."""
    version: str
    """A hash over the files of all there are."""


def load(
    root: Path, wanted: Wanted, *, note: Callable[[str], None], check: Callable[[], None]
) -> Contents:
    """Read a directory.

    Args:
        root: With task directories in it, or one itself.
        wanted: What of it.
        note: Told what is odd.
        check: Called often; may raise to stop.

    Raises:
        ConfigurationError: A selected task is broken or not supported, each with what is wrong; or the selection names
            what is not there.
        PreflightError: There is no such directory, or no task in it.
    """
    where, selection, only = wanted.where, wanted.selection, wanted.only
    directories = [
        one for one in found(root, wanted.format_of.file) if only is None or one.name in only
    ]
    names = [directory.name for directory in directories]
    problems = Problems()
    check_names(problems, where, "sample_ids", selection.sample_ids, names)
    check_names(problems, where, "exclude_ids", selection.exclude_ids or None, names)
    problems.raise_if_any()
    remarks: dict[str, list[str]] = {}
    form = wanted.format_of(wanted.variables, problems, remarks)
    definitions = []
    for directory in directories:
        check()
        if _is_wanted(directory.name, selection):
            definitions.append(form.read(directory))
    read = [definition for definition in definitions if definition is not None]
    if len(read) == len(definitions):
        for field, attribute in (("categories", "category"), ("difficulties", "difficulty")):
            known = dict.fromkeys(getattr(one, attribute) or "" for one in read)
            check_names(problems, where, field, getattr(selection, field), list(known))
    _raise_for(problems, len(definitions) - len(read))
    for remark, tasks in remarks.items():
        note(f"{where}: {remark} ({counted(len(tasks), 'task')}: {_some(tasks)})")
    chosen = [one for one in read if _is_chosen(one, selection)][: selection.limit]
    return Contents(
        tasks=[_task(one) for one in chosen],
        count=len(directories),
        version=version_of(directories, check),
    )


def found(root: Path, file: str) -> list[Path]:
    """Return the task directories of a directory, by name; itself if it is one."""
    try:
        if (root / file).is_file():
            return [root]
        directories = sorted(path for path in root.iterdir() if (path / file).is_file())
    except OSError as error:
        raise PreflightError(
            f"the tasks at {root} cannot be read: {error.strerror or error}",
            hint="Name a directory that has a directory for each task.",
        ) from error
    if directories:
        return directories
    inner = next(
        (path for path in sorted(root.iterdir()) if next(path.glob(f"*/{file}"), None)), None
    )
    raise PreflightError(
        f"{root} has no directory with a {file}",
        hint=f"Did you mean {inner}?"
        if inner
        else "Name a directory that has a directory for each task.",
    )


def version_of(directories: Sequence[Path], check: Callable[[], None]) -> str:
    """Return a hash over names, executable bits and contents of all files."""
    digest = hashlib.sha256()
    for directory in directories:
        for path in _files(directory):
            check()
            name = path.relative_to(directory.parent).as_posix()
            digest.update(f"{name}\0{_kind(path)}\0".encode(errors="surrogateescape"))
            if path.is_symlink():
                digest.update(os.fsencode(path.readlink()))
            elif path.is_file():
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _files(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in sorted((*files, *links)))


def _kind(path: Path) -> str:
    mode = path.lstat().st_mode
    return f"{stat.S_IFMT(mode):o}{'x' if mode & 0o100 else ''}"


def _is_wanted(name: str, selection: DirectorySelection) -> bool:
    is_named = selection.sample_ids is None or name in selection.sample_ids
    return is_named and name not in selection.exclude_ids


def _is_chosen(definition: Definition, selection: DirectorySelection) -> bool:
    def fits(wanted: Collection[str] | None, value: str | None) -> bool:
        return wanted is None or value in wanted

    return fits(selection.categories, definition.category) and fits(
        selection.difficulties, definition.difficulty
    )


def _raise_for(problems: Problems, broken: int) -> None:
    """Raise for all problems, and say how to go on without the tasks that have them."""
    try:
        problems.raise_if_any()
    except ConfigurationError as error:
        error.hint = (
            f"Mend them, or leave {'them' if broken > 1 else 'it'} out with exclude_ids."
            if broken
            else None
        )
        raise


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _task(definition: Definition) -> Task:
    return Task(
        id=definition.id,
        category=definition.category,
        metadata=definition.metadata,
        data=definition,
        run_timeout_seconds=definition.agent_timeout_seconds,
        evaluate_timeout_seconds=definition.tests.timeout_seconds + EVALUATION_SECONDS,
    )
