from __future__ import annotations

import io
import os
import threading
import time

import pyte
import pytest

from agentcompass.progress.terminal import Output, Region


def never():
    return False


def screen_of(*texts, columns=20, rows=8):
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    for text in texts:
        stream.feed(text.replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display], screen


def test_a_region_is_painted_over_and_lines_go_above_it():
    region = Region()
    lines, screen = screen_of(
        "$ run\n",
        region.paint(["one", "two"]),
        region.paint(["1", "2", "3"], "log\n"),
        region.paint(["A"]),
    )
    assert lines == ["$ run", "log", "A", "", "", "", "", ""]
    assert not screen.cursor.hidden


def test_the_cursor_is_never_hidden_and_rests_below_the_region():
    text = Region().paint(["one", "two"])
    assert "?25l" not in text
    _, screen = screen_of(text)
    assert (screen.cursor.y, screen.cursor.x, screen.cursor.hidden) == (2, 0, False)


def test_log_lines_may_wrap():
    lines, _ = screen_of(Region().paint(["panel"], "y" * 30 + "\n"))
    assert lines[:3] == ["y" * 20, "y" * 10, "panel"]


def test_clearing_leaves_only_what_was_above():
    region = Region()
    lines, _ = screen_of("$ run\n", region.paint(["one", "two"], "log\n"), region.clear("bye\n"))
    assert lines[:4] == ["$ run", "log", "bye", ""]


def test_typing_below_the_region_is_wiped_off():
    region = Region()
    lines, _ = screen_of(region.paint(["one"]), "^C", region.paint(["two"]))
    assert lines[:2] == ["two", ""]


def test_a_narrower_terminal_is_painted_anew():
    region = Region()
    lines, _ = screen_of(
        "$ run\n", region.paint(["old"]), region.repaint_all(["new"], ["log one", "log two"])
    )
    assert lines[:3] == ["log one", "log two", "new"]


@pytest.fixture
def pipe():
    read_end, write_end = os.pipe()
    stream = io.TextIOWrapper(io.FileIO(write_end, "w"), encoding="utf-8")
    yield read_end, stream
    os.close(read_end)
    stream.detach().close()


def test_text_arrives_through_the_descriptor(pipe):
    read_end, stream = pipe
    assert Output(stream).send("h\xe9llo\n", never)
    assert os.read(read_end, 100) == "h\xe9llo\n".encode()


def test_a_full_pipe_is_waited_for_until_giving_up(pipe):
    _, stream = pipe
    asked = []

    def gives_up():
        asked.append(True)
        return len(asked) >= 2

    assert not Output(stream).send("x" * 1_000_000, gives_up)
    assert len(asked) == 2


def test_a_full_pipe_that_is_read_again_gets_everything(pipe):
    read_end, stream = pipe
    got = bytearray()

    def drain():
        while len(got) < 300_000:
            got.extend(os.read(read_end, 65536))

    reader = threading.Thread(target=drain)
    reader.start()
    assert Output(stream).send("x" * 300_000, never)
    reader.join(10)
    assert len(got) == 300_000


def test_a_closed_pipe_is_noticed_and_left_alone():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with io.TextIOWrapper(io.FileIO(write_end, "w"), encoding="utf-8") as stream:
        output = Output(stream)
        assert not output.send("anybody?\n", never)
        assert output.is_gone
        assert not output.send("again\n", never)


def test_a_full_disk_is_not_the_end():
    with open("/dev/full", "w", encoding="utf-8") as stream:
        output = Output(stream)
        assert not output.send("line\n", never)
        assert not output.is_gone


def test_a_stream_without_descriptor_is_written_as_text():
    stream = io.StringIO()
    assert Output(stream).send("line \u2026\n", never)
    assert stream.getvalue() == "line \u2026\n"


def test_a_closed_stream_is_gone():
    stream = io.StringIO()
    stream.close()
    output = Output(stream)
    assert not output.send("line\n", never)
    assert output.is_gone


def test_what_an_encoding_lacks_is_escaped():
    read_end, write_end = os.pipe()
    with io.TextIOWrapper(io.FileIO(write_end, "w"), encoding="ascii") as stream:
        Output(stream).send("\u65e5 ok\n", never)
    with open(read_end, "rb") as reader:
        assert reader.read() == b"\\u65e5 ok\n"


def test_where_there_is_no_terminal_its_size_is_80_by_24(pipe):
    assert Output(pipe[1]).size() == (80, 24)


def test_a_stream_that_was_closed_before_is_no_terminal_and_takes_nothing():
    stream = io.TextIOWrapper(io.BytesIO())
    stream.close()
    output = Output(stream)
    assert not output.is_terminal
    assert not output.send("line\n", never)
    assert output.is_gone


def test_a_stream_that_does_not_wait_is_waited_for(pipe):
    _, stream = pipe
    os.set_blocking(stream.fileno(), False)
    assert not Output(stream).send("x" * 1_000_000, lambda: True)


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_dumb_terminal_is_no_terminal(monkeypatch, term):
    monkeypatch.setenv("TERM", term)
    leader, follower = os.openpty()
    with io.TextIOWrapper(io.FileIO(follower, "w"), encoding="utf-8") as stream:
        assert not Output(stream).is_terminal
        monkeypatch.setenv("TERM", "xterm")
        assert Output(stream).is_terminal
    os.close(leader)


def test_a_stopped_terminal_blocks_nobody_for_long(monkeypatch):
    import termios

    leader, follower = os.openpty()
    with io.TextIOWrapper(io.FileIO(follower, "w"), encoding="utf-8") as stream:
        termios.tcflow(follower, termios.TCOOFF)
        begin = time.monotonic()
        assert not Output(stream).send("line\n", lambda: True)
        assert time.monotonic() - begin < 2
        termios.tcflow(follower, termios.TCOON)
    os.close(leader)
