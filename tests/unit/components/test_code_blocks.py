from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.code_blocks import defines, fenced_blocks, truncated


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        pytest.param("no code", [], id="none"),
        pytest.param("```python\na\n```", ["a\n"], id="one"),
        pytest.param("x\n```\na\n```\ny\n```py\nb\n```", ["a\n", "b\n"], id="two"),
        pytest.param("```python\na\nb", ["a\nb\n"], id="cut off"),
        pytest.param("~~~\na\n```\nb\n~~~", ["a\n```\nb\n"], id="tildes"),
        pytest.param("````\n```\na\n```\n````", ["```\na\n```\n"], id="longer fence"),
        pytest.param("1. So:\n   ```python\n   a\n     b\n   ```", ["a\n  b\n"], id="in a list"),
        pytest.param("```python\r\na\r\n```\r\n", ["a\n"], id="windows lines"),
        pytest.param("``` inline ``` text", [], id="inline is none"),
        pytest.param("```\n```", [""], id="empty"),
        pytest.param("```python\n`" * 2, ["`" + "```python\n`\n"], id="odd ticks inside"),
    ],
)
def test_fenced_blocks(text, blocks):
    assert fenced_blocks(text) == blocks


def test_a_megabyte_of_backticks_takes_no_time():
    assert fenced_blocks("`" * 1_000_000) == [""]
    assert fenced_blocks("```x`\n" * 100_000) == []


@pytest.mark.parametrize(
    ("code", "is_there"),
    [
        ("def f(x):", True),
        ("import a\ndef  f (x):", True),
        ("    def f(x):", False),
        ("class A:\n    def f(self):", False),
        ("def ff(x):", False),
        ("# def f(", False),
    ],
)
def test_a_definition_counts_at_top_level_only(code, is_there):
    assert defines(code, "f") is is_there


@pytest.mark.parametrize(
    ("completion", "kept"),
    [
        ("  return 1\ndef g():\nclass A", "  return 1"),
        ("  return 1\n", "  return 1\n"),
        ("\nclass A\ndef g", ""),
        ("", ""),
    ],
)
def test_a_completion_ends_at_the_first_stop(completion, kept):
    assert truncated(completion, ("\ndef", "\nclass")) == kept
