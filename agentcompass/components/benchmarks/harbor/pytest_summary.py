"""What pytest said about its tests: its short summaries and closing lines, read strictly. Pure.

A first-generation task is solved when every test has passed. That is read from pytest's own words, since the published
harness does so: skipped and expected failures count as passed, an unexpected pass as failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from agentcompass.errors import EvaluatorError

_HEAD: Final = re.compile(r"=+ short test summary info =+")
_LINE: Final = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: (.*))?")
_CLOSING: Final = re.compile(r"(?:=+ )?(\d+ \w+(?:, \d+ \w+)*) in \d[\d.]*s(?: \([^)]*\))?(?: =+)?")
_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
_SKIPPED: Final = re.compile(r"\[(\d+)\] ")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_GOOD: Final = frozenset({"PASSED", "SKIPPED", "XFAIL"})
_WORDS: Final = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}


def read(output: str) -> Mapping[str, bool]:
    """Return, by the name of each test, whether it passed; never empty.

    Each summary must be followed by pytest's closing line, with the same counts: what is cut off, or put between, does
    not go unnoticed. A test of which a file's own collection failed is there under the file's name.

    Args:
        output: All that the tests printed, several runs of pytest included.

    Raises:
        EvaluatorError: There is no summary (code `no-test-results`), or it is not as pytest writes it
            (`bad-test-results`).
    """
    lines = [_ESCAPE.sub("", line).rstrip() for line in output.splitlines()]
    heads = [number for number, line in enumerate(lines) if _HEAD.fullmatch(line)]
    if not heads:
        raise EvaluatorError(
            "pytest printed no summary of its tests", code="no-test-results", retryable=False
        )
    results: dict[str, bool] = {}
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        for name, passed in _section(lines[begin + 1 : end]):
            results[name] = results.get(name, True) and passed
    if not results:
        raise _bad("pytest's summary names no test")
    return results


def _section(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """The results of one summary."""
    counts = dict.fromkeys(_WORDS.values(), 0)
    for line in lines:
        if closing := _CLOSING.fullmatch(line):
            _compare(counts, closing[1])
            return
        if found := _LINE.fullmatch(line):
            status, rest = found[1], found[2] or ""
            many = _SKIPPED.match(rest) if status == "SKIPPED" else None
            counts[_WORDS[status]] += int(many[1]) if many else 1
            yield _name(rest), status in _GOOD
    raise _bad("pytest's summary has no closing line")


def _compare(counts: Mapping[str, int], closing: str) -> None:
    said = dict.fromkeys(counts, 0)
    for number, word in _COUNT.findall(closing):
        said[word.removesuffix("s") if word.startswith("error") else word] = int(number)
    for word, count in counts.items():
        # without -rA a summary has nothing but failures and errors
        is_left_out = count == 0 and word not in {"failed", "error"}
        if count != said[word] and not is_left_out:
            raise _bad(f"pytest's summary lists {count} {word}, and its closing line {said[word]}")


def _name(text: str) -> str:
    """The test's own name: without its file, and without the message after it."""
    name = text.split(" - ", 1)[0].strip()
    return name.split("::", 1)[-1] or text


def _bad(sentence: str) -> EvaluatorError:
    return EvaluatorError(sentence, code="bad-test-results", retryable=False)
