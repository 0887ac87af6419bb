"""Code in what a model writes: fenced Markdown blocks, and continuations cut at stop sequences. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Final

_OPENING: Final = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*")


def fenced_blocks(text: str) -> list[str]:
    """Return the contents of fenced code blocks in order, whatever language they name.

    A block that is never closed, as after a cut-off reply, goes to the end. Blocks inside list items lose their
    common indentation. As in CommonMark, a fence closes with at least as many of the same character.
    """
    blocks: list[str] = []
    block: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        if block is None:
            opening = _OPENING.fullmatch(line)
            if opening is not None:
                block, fence = [], opening["fence"]
        elif _closes(line.strip(), fence):
            blocks.append(_dedented(block))
            block = None
        else:
            block.append(line)
    if block is not None:
        blocks.append(_dedented(block))
    return blocks


def defines(code: str, name: str) -> bool:
    """Return whether code has a top-level `def` of a name."""
    return re.search(rf"^def[ \t]+{re.escape(name)}[ \t]*\(", code, re.MULTILINE) is not None


def truncated(completion: str, stops: Iterable[str]) -> str:
    """Return a completion up to the first of the stop sequences that occurs in it."""
    ends = [completion.find(stop) for stop in stops]
    return completion[: min((end for end in ends if end >= 0), default=len(completion))]


def _closes(line: str, fence: str) -> bool:
    return len(line) >= len(fence) and not line.strip(fence[0])


def _dedented(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines) + "\n") if lines else ""
