"""How help looks: an option a line, what it means below; a command and its meaning side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:  # rich is loaded when help is shown, not before
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_MAX_WIDTH: Final = 100
_INDENT: Final = "  "


@final
class HelpFormatter:
    """Renders the parts of a help page as plain text; cyclopts calls it."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of commands or options."""
        if not panel.entries:
            return
        show = self._commands if panel.format == "command" else self._parameters
        self._print(console, [f"{panel.title}:", *show(panel.entries, _width(options)), ""])

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage line."""
        text = f"{getattr(usage, 'plain', usage)}".strip()
        if text:
            self._print(console, [f"Usage: {text.removeprefix('Usage:').strip()}", ""])

    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        """Print what stands between usage and options, and the epilogue."""
        width = _width(options)
        paragraphs = f"{_plain(description)}".strip().split("\n\n")
        for paragraph in filter(None, paragraphs):
            self._print(console, [*textwrap.wrap(paragraph, width), ""])

    def _commands(self, entries: list[HelpEntry], width: int) -> Iterable[str]:
        labels = [", ".join((*entry.positive_names, *entry.positive_shorts)) for entry in entries]
        column = max(map(len, labels)) + 2
        for label, entry in zip(labels, entries, strict=True):
            yield from textwrap.wrap(
                _plain(entry.description),
                width,
                initial_indent=f"{_INDENT}{label:<{column}}",
                subsequent_indent=" " * (column + len(_INDENT)),
            )

    def _parameters(self, entries: list[HelpEntry], width: int) -> Iterable[str]:
        for entry in entries:
            yield f"{_INDENT}{', '.join(entry.display_labels_with_metavar)}"
            indent = _INDENT * 3
            yield from textwrap.wrap(
                _plain(entry.description), width, initial_indent=indent, subsequent_indent=indent
            )

    def _print(self, console: Console, lines: Iterable[str]) -> None:
        # Lines are wrapped already; rich would break those that fill the terminal once again.
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _width(options: ConsoleOptions) -> int:
    return min(_MAX_WIDTH, options.max_width)


def _plain(value: Any) -> str:
    """The text of what cyclopts hands on: a string, a rich text, or something that renders to either."""
    for name in ("plain", "primary_renderable"):
        value = getattr(value, name, value)
    return f"{getattr(value, 'plain', value) or ''}"
