"""Reading a JSONL file of tasks: every line checked, every problem reported with its line and field."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, TypeAlias, final, get_args

from agentcompass.components.base import Task
from agentcompass.components.benchmarks import regexes, scoring
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.errors import did_you_mean
from agentcompass.metrics.board import UNCATEGORIZED
from agentcompass.records import JSON
from agentcompass.spec.problems import Problems

Scorer: TypeAlias = Literal["exact", "numeric", "regex", "contains", "command", "judge"]

SCORERS: Final[tuple[Scorer, ...]] = get_args(Scorer)
MAX_PROBLEMS: Final = 1000
"""Where reading stops: such a file is of another kind."""
MAX_ID: Final = 200

_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")

_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "id": ((str, int), "a text"),
    "prompt": ((str,), "a text"),
    "messages": ((list,), "a list of messages"),
    "answer": ((str, int, float, list), "a text, a number, or a list of these"),
    "command": ((str,), "a text"),
    "category": ((str,), "a text"),
    "metadata": ((dict,), "an object"),
    "solution": ((str,), "a text"),
    "scorer": ((str,), "a text"),
    "rubric": ((str,), "a text"),
}
_ROLES: Final = ("system", "user", "assistant")


@frozen(kw_only=True)
class Item:
    """What a line says about a task."""

    prompt: str | None
    messages: tuple[Message, ...]
    """Given instead of a prompt."""
    answers: tuple[str, ...]
    """Acceptable ones; numbers as text."""
    command: str | None
    solution: str | None
    scorer: Scorer
    rubric: str | None = None


@frozen(kw_only=True)
class Contents:
    """A whole file."""

    tasks: tuple[Task, ...]
    """Those that were wanted, in the file's order; `data` is an `Item`."""
    ids: tuple[str, ...]
    """All there are."""
    categories: tuple[str, ...]
    """All there are."""
    sha256: str


def read(
    path: Path,
    *,
    default_scorer: Scorer | None,
    is_wanted: Callable[[Task], bool],
    limit: int | None,
    problems: Problems,
) -> Contents:
    """Read a file line by line, keeping only the tasks that are wanted.

    Args:
        path: The file.
        default_scorer: For lines that name none; None: decided by what the line has.
        is_wanted: Chooses tasks.
        limit: Keep the first so many of the chosen; None: all.
        problems: Takes everything that is wrong with the file; the caller raises.
    """
    reader = _Reader(path, default_scorer, problems)
    digest = hashlib.sha256()
    tasks: list[Task] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                digest.update(line)
                task = reader.task(number, line)
                if task and is_wanted(task) and (limit is None or len(tasks) < limit):
                    tasks.append(task)
                if reader.is_hopeless:
                    break
    except OSError as exc:
        problems.add(str(path), "", f"cannot be read: {exc.strerror or exc}")
        return Contents(tasks=(), ids=(), categories=(), sha256="")
    if not reader.has_lines:
        problems.add(str(path), "", "has no tasks: write one JSON object a line")
    return Contents(
        tasks=tuple(tasks),
        ids=tuple(reader.line_of),
        categories=tuple(reader.categories),
        sha256=digest.hexdigest(),
    )


@final
class _Reader:
    """Turns lines into tasks and remembers what must not come twice."""

    def __init__(self, path: Path, default_scorer: Scorer | None, problems: Problems) -> None:
        self.line_of: dict[str, int] = {}
        self.categories: dict[str, None] = {}
        self.has_lines = False
        self.is_hopeless = False
        self._path = path
        self._default_scorer = default_scorer
        self._problems = problems

    def task(self, number: int, line: bytes) -> Task | None:
        """Return the task of a line; None if the line is blank, or wrong, which is noted."""
        before = len(self._problems)
        if number == 1:
            line = self._without_bom(line)
        if self.is_hopeless or not line.strip():
            return None
        self.has_lines = True
        fields = _Fields(f"{self._path}:{number}", self._problems)
        task = self._task(number, line, fields)
        self.is_hopeless = len(self._problems) >= MAX_PROBLEMS
        return task if len(self._problems) == before else None

    def _without_bom(self, line: bytes) -> bytes:
        if line.startswith(_UTF16):
            self.has_lines = self.is_hopeless = True
            self._problems.add(f"{self._path}:1", "", "is UTF-16: save the file as UTF-8")
        elif line.startswith(_BOM):
            self._problems.add(
                f"{self._path}:1", "", "begins with a byte order mark: save the file without it"
            )
        return line.removeprefix(_BOM)

    def _task(self, number: int, line: bytes, fields: _Fields) -> Task | None:
        if not fields.parse(line):
            return None
        name = fields.identifier()
        if name is not None and self.line_of.setdefault(name, number) != number:
            fields.wrong("id", f"{name!r} is also the id of line {self.line_of[name]}")
        item = fields.item(self._default_scorer)
        category = fields.get("category")
        if category == UNCATEGORIZED:
            fields.wrong("category", f"{category!r} stands for tasks without one: leave it out")
        if category is not None:
            self.categories.setdefault(category)
        if name is None:
            return None
        return Task(id=name, category=category, metadata=fields.get("metadata") or {}, data=item)


@final
class _Fields:
    """The fields of one line. A field of a wrong type is noted once and then taken as absent."""

    def __init__(self, where: str, problems: Problems) -> None:
        self._where = where
        self._problems = problems
        self._row: dict[str, JSON] = {}

    def wrong(self, field: str, sentence: str) -> None:
        """Note a problem of a field."""
        self._problems.add(self._where, field, sentence)

    def get(self, field: str) -> Any:
        """Return a field's value; None if it is absent, null or of a wrong type."""
        return self._row.get(field)

    def parse(self, line: bytes) -> bool:
        """Take a line's fields; False if it is no JSON object."""
        try:
            text = line.rstrip().decode()
            row = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        except UnicodeDecodeError as exc:
            self.wrong("", f"is not UTF-8 (byte {exc.start + 1} of the line)")
            return False
        except json.JSONDecodeError as exc:
            self.wrong("", f"is no JSON: {exc.msg} (column {exc.colno})")
            return False
        except (ValueError, RecursionError) as exc:
            self.wrong("", f"is no JSON: {exc}")
            return False
        if not isinstance(row, dict):
            self.wrong("", f"must be a JSON object, not {_kind(row)}")
            return False
        for field, value in row.items():
            if field not in _TYPES:
                self.wrong(field, f"there is no such field{did_you_mean(field, _TYPES)}")
            elif value is not None and self._has_type(field, value):
                self._row[field] = value
        return True

    def _has_type(self, field: str, value: JSON) -> bool:
        types, words = _TYPES[field]
        if isinstance(value, types) and not isinstance(value, bool):
            return True
        self.wrong(field, f"must be {words}, not {_kind(value)}")
        return False

    def identifier(self) -> str | None:
        """Return the task's id; None if there is no usable one."""
        value = self.get("id")
        if value is None:
            self.wrong("id", "is missing")
            return None
        name = str(value)
        fault = _id_fault(name)
        if fault:
            self.wrong("id", fault)
            return None
        return name

    def item(self, default_scorer: Scorer | None) -> Item:
        """Return what the line says beside id, category and metadata."""
        answers = self._answers()
        scorer = self._scorer(default_scorer)
        self._check_expectation(scorer, answers)
        if (self.get("prompt") is None) == (self.get("messages") is None):
            self.wrong("prompt", "give either `prompt` or `messages`")
        return Item(
            prompt=self.get("prompt"),
            messages=self._messages(),
            answers=answers,
            command=self.get("command"),
            solution=self.get("solution"),
            scorer=scorer,
            rubric=self.get("rubric"),
        )

    def _answers(self) -> tuple[str, ...]:
        value = self.get("answer")
        if value is None:
            return ()
        values = value if isinstance(value, list) else [value]
        if not values:
            self.wrong("answer", "is an empty list: nothing would be acceptable")
        for each in values:
            is_number = isinstance(each, int | float) and not isinstance(each, bool)
            if not (isinstance(each, str) or (is_number and math.isfinite(each))):
                self.wrong(
                    "answer", f"must be a text, a finite number, or a list of these, not {each!r}"
                )
                return ()
        return tuple(each if isinstance(each, str) else json.dumps(each) for each in values)

    def _scorer(self, default: Scorer | None) -> Scorer:
        written = self.get("scorer")
        if written is None:
            return default or self._natural_scorer()
        for scorer in SCORERS:
            if written == scorer:
                return scorer
        self.wrong("scorer", f"there is no scorer {written!r}{did_you_mean(written, SCORERS)}")
        return self._natural_scorer()

    def _natural_scorer(self) -> Scorer:
        if self.get("command") is not None:
            return "command"
        answer = self.get("answer")
        values = answer if isinstance(answer, list) else [answer]
        return "numeric" if all(isinstance(each, int | float) for each in values) else "exact"

    def _check_expectation(self, scorer: Scorer, answers: tuple[str, ...]) -> None:
        if scorer == "command":
            if not (self.get("command") or "").strip():
                self.wrong("command", "is missing: the scorer `command` runs it")
            return
        if scorer == "judge":
            return  # a rubric may be enough
        if self.get("answer") is None:
            self.wrong("answer", f"is missing: the scorer `{scorer}` compares with it")
        for answer in answers:
            if scorer == "numeric" and scoring.last_number(answer) is None:
                self.wrong("answer", f"{answer!r} has no number")
            elif scorer == "contains" and not answer.strip():
                self.wrong("answer", "is blank: every text contains it")
            elif scorer == "regex" and (fault := regexes.fault_of(answer)):
                self.wrong("answer", f"{answer!r} {fault}")

    def _messages(self) -> tuple[Message, ...]:
        rows = self.get("messages")
        if rows is None:
            return ()
        messages = [self._message(f"messages[{index}]", row) for index, row in enumerate(rows)]
        if not messages or (messages[-1] is not None and messages[-1].role != "user"):
            self.wrong("messages", "the last message must be the user's")
        return tuple(message for message in messages if message is not None)

    def _message(self, path: str, row: JSON) -> Message | None:
        if not isinstance(row, dict) or set(row) != {"role", "content"}:
            self.wrong(path, "must be an object with `role` and `content`")
            return None
        role, content = row["role"], row["content"]
        if role not in _ROLES:
            self.wrong(f"{path}.role", f"must be one of {', '.join(_ROLES)}, not {role!r}")
            return None
        is_parts = isinstance(content, list) and all(
            isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
        )
        if not (isinstance(content, str) or (is_parts and content)):
            self.wrong(f"{path}.content", "must be a text or a list of parts with a `type`")
            return None
        return Message(role=role, content=content if isinstance(content, str) else tuple(content))


def _id_fault(name: str) -> str | None:
    if not name.strip() or len(name) > MAX_ID:
        return f"must have 1 to {MAX_ID} characters"
    if not name.isprintable():
        return f"{name!r} has characters that cannot be printed"
    if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
        return f"{name!r} looks like a path that leads outside"
    return None


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return row


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _kind(value: JSON) -> str:
    names = {
        bool: "a boolean",
        str: "a text",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), "a number")
