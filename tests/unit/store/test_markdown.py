import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.store.markdown import block, clean, code, escape

hostile = st.text(alphabet=st.characters(), max_size=60) | st.text(
    "`|\\[]()<>*_#\n\x1b~!$@&;:/ a", max_size=40
)


@given(hostile)
def test_clean_text_is_one_printable_line(text):
    line = clean(text)
    assert all(c.isprintable() for c in line)
    assert len(line) <= 200
    line.encode()


def test_terminal_escapes_are_gone_with_their_parameters():
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://h\x1b\\y") == "red xy"


def test_direction_marks_and_zero_width_characters_are_gone():
    assert clean("a\u202eb\u2066c\u200bd\ufeff") == "abcd"


def test_long_text_is_cut_and_says_so():
    assert clean("x" * 1000, 10) == "xxxxxxxxx…"


@given(hostile)
def test_escaped_text_has_no_markup_that_is_not_escaped(text):
    plain = escape(text)
    unescaped = plain
    for character in "\\`*_[]<>|~&#$@!:.":
        unescaped = unescaped.replace("\\" + character, "")
    assert not set(unescaped) & set("`*_[]<>|~&#$@!")
    assert not re.search(r"(?<!\\)://", plain)
    assert "www." not in plain


@given(hostile)
def test_inline_code_has_exactly_its_own_two_backticks_or_none(text):
    shown = code(text)
    if shown.startswith("`"):
        assert shown.count("`") == 2
        assert shown.endswith("`")
        assert "|" not in shown
    else:
        assert "`" not in shown.replace("\\`", "")
    assert "\n" not in shown


@pytest.mark.parametrize("text", ["```", "a````b", "x\n```\n# heading"])
def test_nothing_closes_a_block(text):
    lines = block(text).splitlines()
    fence = lines[0].removesuffix("sh")
    assert lines[-1] == fence
    assert len(lines) == 3
    assert fence not in lines[1]
