from __future__ import annotations

import io
import os
import subprocess
import sys
import termios

import pytest

from agentcompass.cli.output import Emitter, table
from support.commandline import Program


def test_columns_are_aligned_and_lines_have_no_tail():
    assert table([("a", "long cell", "x"), ("bbb", "c", "")]) == "a    long cell  x\nbbb  c"


def test_a_cell_cannot_eat_its_padding_or_its_neighbour():
    rows = [
        ("c\x1b", "0.5"),
        ("d\x1b[", "0.5"),
        ("e\x1b]0;title\x07", "0.5"),
        ("two\nlines\x07", "1"),
    ]
    assert table(rows).splitlines() == [
        "c          0.5",
        "d          0.5",
        "e          0.5",
        "two lines  1",
    ]


def test_an_ascii_stream_gets_escapes(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Emitter().text("d\xe9j\xe0")
    assert raw.getvalue() == b"d\\xe9j\\xe0\n"


def test_json_is_strict():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Emitter().json(float("nan"))


def test_a_reader_who_leaves_early_is_no_error(tmp_path):
    with Program(tmp_path).start("config", "docs") as child:
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(30) == 0
        assert child.stderr.read() == ""


def test_a_full_disk_is_an_error_that_says_so(tmp_path):
    with (
        open("/dev/full", "w") as full,
        Program(tmp_path).start("config", "docs", stdout=full) as child,
    ):
        assert child.stderr.read() == (
            "error: standard output cannot be written: No space left on device\n"
        )
        assert child.wait(30) == 1


@pytest.mark.parametrize("arguments", [("--version",), ("list", "harnesses")])
def test_a_closed_standard_output_is_no_error(tmp_path, arguments):
    program = Program(tmp_path)
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *program.arguments(*arguments)]
    done = subprocess.run(
        shell, env=program.environment(), capture_output=True, check=False, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_standard_output_there_is_nothing_to_write_to(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    Emitter().text("words")
    assert Emitter().columns == 80


@pytest.mark.parametrize(("columns", "used"), [(132, 132), (40, 80)], ids=["wide", "narrow"])
def test_a_table_may_be_as_wide_as_the_terminal_and_80_at_least(monkeypatch, columns, used):
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    with open(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert Emitter().columns == used
        monkeypatch.undo()
    os.close(leader)


def test_characters_of_any_width_are_aligned():
    rows = [("\u6771\u4eac", "1"), ("e\u0301tude", "2"), ("abcdef", "3")]
    assert table(rows).splitlines() == ["\u6771\u4eac    1", "e\u0301tude   2", "abcdef  3"]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_quick_answers_to_a_full_disk_say_so(tmp_path, arguments):
    with (
        open("/dev/full", "w") as full,
        Program(tmp_path).start(*arguments, stdout=full) as child,
    ):
        assert "No space left on device" in child.stderr.read()
        assert child.wait(30) == 1


def test_quick_answers_to_nobody_are_no_error(tmp_path):
    program = Program(tmp_path)
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *program.arguments("--help")]
    done = subprocess.run(shell, env=program.environment(), check=False, timeout=30)
    assert done.returncode == 0


def test_a_stream_that_was_closed_already_is_no_error(tmp_path):
    code = """
import sys
sys.argv = ["agentcompass", "--version"]
sys.stdout.close()
from agentcompass.cli.entry import main
main()
"""
    program = Program(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=program.environment(),
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
