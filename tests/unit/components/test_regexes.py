from __future__ import annotations

import time

import pytest
import trio

from agentcompass.components.benchmarks import regexes
from agentcompass.components.benchmarks.regexes import Found, fault_of, search
from agentcompass.errors import EvaluatorError


async def test_the_last_match_is_taken_out_by_its_group():
    found = await search(
        "A: 1\nA: 2\n", extract=r"A: (\d)", patterns=["^2$", "3"], ignore_case=False
    )
    assert found == Found(extracted="2", matches=True)


@pytest.mark.parametrize(
    ("extract", "extracted"), [(r"\d+", "22"), (r"x(\d)?", None), (r"z", None), (None, "1 22 x")]
)
async def test_what_is_taken_out_without_group_or_match(extract, extracted):
    found = await search("1 22 x", extract=extract, patterns=(), ignore_case=False)
    assert found == Found(extracted=extracted, matches=False)


async def test_nothing_matches_where_nothing_was_taken_out():
    found = await search("abc", extract="z", patterns=["a"], ignore_case=False)
    assert found == Found(extracted=None, matches=False)


@pytest.mark.parametrize(("ignore_case", "extracted"), [(True, "PARIS"), (False, None)])
async def test_case_is_ignored_on_request(ignore_case, extracted):
    found = await search("PARIS", extract="pa.*", patterns=["paris"], ignore_case=ignore_case)
    assert found == Found(extracted=extracted, matches=ignore_case)


async def test_a_pattern_that_fails_is_told_with_its_reason():
    with pytest.raises(
        EvaluatorError,
        match=r"could not be run \(exit code 1\): re\S+: unterminated character set at",
    ):
        await search("x", extract=None, patterns=["["], ignore_case=False)


async def test_only_the_end_of_a_long_text_is_searched():
    text = "needle" + "x" * regexes.MAX_CHARACTERS
    found = await search(text, extract=None, patterns=["needle"], ignore_case=False)
    assert not found.matches


async def test_any_text_survives_the_way():
    text = "\ud800 \0 \U0001f600 \u2028"
    found = await search(text, extract=None, patterns=["\U0001f600"], ignore_case=False)
    assert found == Found(extracted=text, matches=True)


@pytest.mark.parametrize(("extract", "patterns"), [("(a+)+$", []), (None, ["(a+)+$"])])
async def test_a_catastrophic_pattern_is_ended_and_is_no_verdict(monkeypatch, extract, patterns):
    monkeypatch.setattr(regexes, "CPU_SECONDS", 1)
    started = time.monotonic()
    with pytest.raises(EvaluatorError, match="processor time") as caught:
        await search("a" * 60 + "b", extract=extract, patterns=patterns, ignore_case=False)
    assert (caught.value.code, caught.value.retryable) == ("regex-timeout", False)
    assert time.monotonic() - started < 30


async def test_a_search_can_be_cancelled_at_once():
    with trio.move_on_after(0.3) as scope:
        await search("a" * 60 + "b", extract="(a+)+$", patterns=(), ignore_case=False)
    assert scope.cancelled_caught


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<a>x)(?P<a>y)", "*", "a{99999999999999999999}"])
def test_a_wrong_pattern_is_told_before_anything_runs(pattern):
    assert "is no regular expression" in fault_of(pattern)


def test_a_right_pattern_has_no_fault():
    assert fault_of(r"Answer:\s*(.*)") is None
