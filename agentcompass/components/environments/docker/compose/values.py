"""The values of a Compose file: texts, sizes, durations, lists and mappings, each wrong one a problem with its place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar, final

import attrs

from agentcompass.components.environments.docker.compose.variables import dotenv, interpolated
from agentcompass.data import frozen
from agentcompass.errors import did_you_mean
from agentcompass.regular import open_regular
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Written, kind_of, report, report_key, text_of

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
"""Of a file with variables."""
_UNITS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?(us|µs|ms|s|m|h))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(us|µs|ms|s|m|h)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?b?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@final
@frozen(kw_only=True, eq=False)
class Reading:
    """One file that is being read.

    Every reader takes a value whose variables are replaced, and returns what it says; for one that cannot be used it
    adds a problem and returns something harmless.
    """

    directory: Path
    """Of the file, resolved: the task's."""
    variables: Mapping[str, str] = attrs.field(repr=False)
    problems: Problems = attrs.field(factory=Problems)
    notes: list[str] = attrs.field(factory=list)

    def refuse(self, node: Written, sentence: str) -> None:
        """Add a problem about a value."""
        report(self.problems, node, sentence)

    def known(self, node: Written, used: tuple[str, ...], refused: Mapping[str, str]) -> None:
        """Add a problem for each key of a mapping that is not used, with the reason where there is one.

        Args:
            node: The mapping.
            used: Keys that mean something here, or may be left alone.
            refused: Reasons, by key.
        """
        if not node.is_mapping and node.data is not None:
            self.refuse(node, f"must be a mapping, not {kind_of(node)}")
        for key, item in node.items():
            if key in refused:
                report_key(self.problems, item, refused[key])
            elif key not in used and not key.startswith("x-"):
                report_key(
                    self.problems, item, f"this key is not understood{did_you_mean(key, used)}"
                )

    def replaced(self, node: Written) -> Written:
        """Return a tree with the variables of all its texts replaced."""
        if isinstance(node.data, dict):
            return attrs.evolve(node, data={k: self.replaced(v) for k, v in node.items()})
        if isinstance(node.data, tuple):
            return attrs.evolve(node, data=tuple(map(self.replaced, node.data)))
        if not isinstance(node.data, str) or "$" not in node.data:
            return node
        try:
            text = interpolated(node.data, self.variables, self.tell_unset)
        except ValueError as error:
            self.refuse(node, str(error))
            text = ""
        return attrs.evolve(node, data=text, text=None)

    def tell_unset(self, name: str) -> None:
        """Note that a variable has no value."""
        self.notes.append(
            f"the variable {name} of a Compose file has no value: it stands for nothing"
        )

    # --- single values

    def text(self, node: Written) -> str:
        """Read a text; a number is what was typed."""
        if isinstance(node.data, dict | tuple):
            self.refuse(node, f"must be a text, not {kind_of(node)}")
            return ""
        return text_of(node) or ""

    def some(self, node: Written | None, read: Callable[[Written], T]) -> T | None:
        """Read a value that may be missing or null."""
        return None if node is None or node.data is None else read(node)

    def flag(self, node: Written) -> bool:
        """Read true or false."""
        value = _FLAGS.get(self.text(node).lower())
        if value is None:
            self.refuse(node, f"must be true or false, not {self.text(node)!r}")
        return bool(value)

    def number(self, node: Written) -> float:
        """Read a number that is not negative."""
        try:
            value = float(self.text(node))
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            self.refuse(node, f"must be a number that is not negative, not {self.text(node)!r}")
            return 0.0
        return value

    def whole(self, node: Written) -> int:
        """Read a whole number that is not negative."""
        value = self.number(node)
        if not value.is_integer():
            self.refuse(node, f"must be a whole number, not {self.text(node)!r}")
        return int(value)

    def duration(self, node: Written) -> float:
        """Read a duration such as `1m30s`; in seconds."""
        text = self.text(node)
        if text == "0":
            return 0.0
        if not _DURATION.fullmatch(text):
            self.refuse(node, f"must be a duration such as 1m30s, not {text!r}")
            return 0.0
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))

    def size(self, node: Written) -> int:
        """Read a size such as `512m`; in bytes."""
        found = _SIZE.fullmatch(self.text(node).strip())
        if found is None:
            self.refuse(node, f"must be a size such as 512m, not {self.text(node)!r}")
            return 0
        return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])

    def one_of(self, node: Written, choices: tuple[T, ...]) -> T:
        """Read one of a few words."""
        text = self.text(node)
        chosen = next((choice for choice in choices if choice == text), None)
        if chosen is None:
            words = ", ".join(map(str, choices))
            self.refuse(node, f"must be one of {words}, not {text!r}")
            return choices[0]
        return chosen

    # --- several values

    def items(self, node: Written) -> tuple[Written, ...]:
        """Read a list."""
        if isinstance(node.data, tuple):
            return node.data
        if node.data is not None:
            self.refuse(node, f"must be a list, not {kind_of(node)}")
        return ()

    def texts(self, node: Written) -> tuple[str, ...]:
        """Read a list of texts, or a single one."""
        if isinstance(node.data, tuple):
            return tuple(map(self.text, node.data))
        return (self.text(node),)

    def words(self, node: Written) -> tuple[str, ...]:
        """Read a command: a list, or a line that is split as a shell does."""
        if isinstance(node.data, tuple):
            return tuple(map(self.text, node.data))
        try:
            return tuple(shlex.split(self.text(node)))
        except ValueError as error:
            self.refuse(node, f"is no command: {error}")
            return ()

    def pairs(self, node: Written, separator: str = "=") -> Mapping[str, str]:
        """Read a mapping of texts, or a list of `NAME=value`; a bare name has the value of that variable, if it has one."""
        if node.is_mapping:
            given = [
                (key, None if item.data is None else self.text(item)) for key, item in node.items()
            ]
        else:
            split = (self.text(item).partition(separator) for item in self.items(node))
            given = [(name, value if has else None) for name, has, value in split]
        values = (
            (name, self.variables.get(name) if value is None else value) for name, value in given
        )
        return {name: value for name, value in values if value is not None}

    # --- files

    def below(self, node: Written, text: str) -> Path | None:
        """Return a path of the task's directory; None after a problem: it leads outside, or cannot be looked at."""
        try:
            path = (self.directory / text).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            self.refuse(node, f"{text!r} leads nowhere: {error}")
            return None
        if not path.is_relative_to(self.directory):
            self.refuse(
                node,
                f"{text!r} is not in the task's directory: nothing else of this machine is given",
            )
            return None
        return path

    def variables_of(self, node: Written, text: str, *, is_required: bool) -> Mapping[str, str]:
        """Read a file of variables."""
        path = self.below(node, text)
        if path is None or not (is_required or path.exists()):
            return {}
        try:
            with open_regular(path) as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            self.refuse(node, f"{text!r} cannot be read: {error.strerror or error}")
            return {}
        if len(data) > MAX_BYTES:
            self.refuse(node, f"{text!r} is larger than {MAX_BYTES >> 20} MiB")
            return {}

        def problem(line: int, sentence: str) -> None:
            self.problems.add(f"{path}:{line}", "", sentence)

        return dotenv(data.decode(errors="replace"), self.variables, problem, self.tell_unset)
