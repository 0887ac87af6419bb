from __future__ import annotations

import pytest

from agentcompass.progress import text
from agentcompass.records import Usage
from agentcompass.secrets import Scrubber


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07plain", "plain"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x9b2Jeight bit", "eight bit"),
        ("a\rb", "a b"),
        ("back\x08\x08space", "backspace"),
        ("bell\x07", "bell"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("unfinished \x1b]0;title", "unfinished 0;title"),
        ("abc\u202edcb", "abcdcb"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("tab\tnew\nline\u2028two", "tab new line two"),
        ("\u65e5\u672c\u8a9e \U0001f600", "\u65e5\u672c\u8a9e \U0001f600"),
    ],
)
def test_untrusted_text_cannot_command_the_terminal(hostile, shown):
    assert text.printable(hostile) == shown


def test_escapes_that_removal_would_join_do_not_come_back():
    assert "\x1b" not in text.printable("\x1b\x1b[0m[31m")


def test_line_ends_stay_where_lines_are_wanted():
    assert text.printable("a\r\nb\x85c\rd", multiline=True) == "a\nb\nc\nd"


def test_a_long_run_of_unfinished_escapes_is_read_in_linear_time():
    assert text.printable("\x1b]" * 200_000) == ""


def test_a_secret_interrupted_by_an_escape_is_found():
    scrubber = Scrubber()
    scrubber.register("sk-verysecret")
    assert text.cleaner(scrubber.scrub)("key sk-very\x1b[0msecret") == "key [secret]"


def test_a_secret_that_the_cut_would_halve_is_found():
    scrubber = Scrubber()
    scrubber.register("sk-verysecret")
    assert text.cleaner(scrubber.scrub, limit=14)("0123456 sk-verysecret") == "0123456 [se..."


@pytest.mark.parametrize(
    ("encoding", "glyphs"),
    [
        ("utf-8", text.UNICODE),
        ("ascii", text.ASCII),
        ("ANSI_X3.4-1968", text.ASCII),
        ("latin-1", text.ASCII),
        (None, text.ASCII),
        ("no-such-codec", text.ASCII),
    ],
)
def test_glyphs_are_those_that_the_stream_can_show(encoding, glyphs):
    assert text.glyphs_for(encoding) is glyphs


@pytest.mark.parametrize("encoding", ["ascii", None, "no-such-codec"])
def test_characters_that_a_stream_lacks_become_escapes(encoding):
    assert text.encodable("caf\xe9 \u2026", encoding) == "caf\\xe9 \\u2026"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"),
        (59.9, "59s"),
        (60, "1m 00s"),
        (3600, "1h 00m"),
        (3600 * 26 + 60 * 5, "1d 02h"),
    ],
)
def test_durations_use_their_two_largest_units(seconds, shown):
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (999_999, "999k"),
        (2_500_000, "2.5M"),
    ],
)
def test_amounts_are_short(number, shown):
    assert text.amount(number) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(None, "cost unknown"), (0.0, "$0.00"), (0.0012, "$0.0012"), (12.3, "$12.30")],
)
def test_an_unknown_price_is_not_shown_as_nothing(dollars, shown):
    assert text.money(dollars) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"),
    [(None, ""), (0.0, ""), (2.5, "2.5/s"), (0.2, "12/min"), (0.001, "3.6/h")],
)
def test_rates_use_the_unit_that_gives_whole_numbers(per_second, shown):
    assert text.pace(per_second) == shown


@pytest.mark.parametrize(
    ("shown", "width"),
    [("abc", 3), ("\u6771\u4eac", 4), ("e\u0301", 1), ("a\u200bb", 2), ("\uff21", 2), ("", 0)],
    ids=["ascii", "wide", "accent", "zero width", "full width", "empty"],
)
def test_the_columns_of_a_text_are_those_that_it_takes(shown, width):
    assert text.cells(shown) == width


@pytest.mark.parametrize("limit", range(3, 40))
@pytest.mark.parametrize("shown", ["x" * 30, "\u6771\u4eac" * 10, "a\u6771" * 9, "e\u0301" * 30])
def test_what_is_made_narrow_fits_and_keeps_as_much_as_it_can(shown, limit):
    for short in (text.narrowed(shown, limit), text.cut(shown, limit)):
        assert text.cells(short) <= limit
        assert text.cells(short) >= min(limit, text.cells(shown)) - 2, "a wide character takes two"


def test_what_is_narrowed_keeps_both_ends_and_what_is_cut_its_beginning():
    assert text.narrowed("abcdefghijklmnop", 9) == "abc...nop"
    assert text.cut("abcdefghijklmnop", 9) == "abcdef..."
    assert text.narrowed("abc", 3) == text.cut("abc", 3) == "abc"


@pytest.mark.parametrize(
    ("value", "interval", "shown"),
    [
        (None, None, "n/a"),
        (0.5, None, "0.500"),
        (0.5, (0.25, 0.75), "0.500 [0.250, 0.750]"),
        (1234.5678, (-2e300, 1e6), "1234.57 [-2e+300, 1e+06]"),
    ],
    ids=["unknown", "alone", "interval", "large"],
)
def test_scores_of_any_size_stay_short(value, interval, shown):
    assert text.score(value, interval) == shown


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (Usage(), "0"),
        (Usage(calls=2, input_tokens=1200, output_tokens=34), "1.23k"),
        (Usage(calls=2, unmetered_calls=1, input_tokens=1200), "1.2k+"),
        (Usage(calls=2, unmetered_calls=2), "unknown"),
    ],
    ids=["no call", "all", "some", "none"],
)
def test_tokens_that_no_answer_told_are_unknown(usage, shown):
    assert text.tokens(usage) == shown
