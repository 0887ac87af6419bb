from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from agentcompass.progress import events
from agentcompass.progress.display import open_display
from agentcompass.secrets import Scrubber
from support.screen import TESTS, Screen
from support.scripted_run import START, failed, finished, prepared, request_finished, started

PRELUDE = """
import sys, time
from support.scripted_run import *
from agentcompass.progress import events
from agentcompass.progress.display import open_display
from agentcompass.secrets import Scrubber
scrubber = Scrubber()
scrubber.register("sk-verysecret")
now = time.time()
def open_it(mode="auto"):
    return open_display(mode, scrubber=scrubber, title="model_bench_harness")
"""
FULL = """
with open_it() as display:
    display.handle(prepared(planned=200, at=now - 60))
    for n in range(150):
        display.handle(started(f"task-{n} sk-verysecret", at=now - 50))
    for n in range(20):
        display.handle(finished(f"task-{n} sk-verysecret", float(n % 2), at=now - 20 + n))
    display.log("from the log sk-verysecret", "warning")
    sys.stdin.readline()
    for n in range(50):
        display.log(f"line {n}")
        display.handle(finished(f"task-{20 + n} sk-verysecret", 1.0, at=now))
        time.sleep(0.01)
    sys.stdin.readline()
    display.handle(request_finished(at=now))
print("RESULT")
"""


@pytest.fixture
def terminal():
    screens = []

    def start(code, **options):
        screens.append(Screen(PRELUDE + code, **options))
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()


def lines_of(*what, mode="plain", secret=None):
    stream = io.StringIO()
    scrubber = Scrubber()
    scrubber.register(secret)
    with open_display(mode, stream=stream, scrubber=scrubber, clock=lambda: START) as display:
        for event in what:
            display.handle(event)
    return stream.getvalue().splitlines()


# --- live


def test_a_terminal_shows_score_counts_and_active_tasks_and_is_left_in_order(terminal):
    screen = terminal(FULL)
    screen.until("model_bench_harness")
    screen.until("20/200")
    for words in ("accuracy 0.500 [0.299, 0.701]", "130 active", "task-20 [secret]"):
        screen.until(words)  # a frame may arrive in pieces
    screen.until(lambda it: any(line.endswith("from the log [secret]") for line in it.lines))
    screen.write(b"\n")
    screen.until("70/200")
    screen.write(b"\n")
    assert screen.end() == 0
    assert "model_bench_harness" not in screen.text
    assert "demo: completed" in screen.text
    assert "RESULT" in screen.text
    assert screen.cursor_is_shown
    assert b"sk-verysecret" not in screen.raw


def test_log_lines_are_never_torn(terminal):
    screen = terminal(FULL)
    screen.until("20/200")
    screen.write(b"\n\n")
    assert screen.end() == 0
    seen = [line for line in (*screen.history, *screen.lines) if "line " in line]
    assert [line[9:] for line in seen] == [f"line {n}" for n in range(50)]


@pytest.mark.parametrize("size", [(20, 5), (30, 40), (200, 60)], ids=["tiny", "narrow", "large"])
def test_the_display_follows_the_size_of_the_terminal(terminal, size):
    screen = terminal(FULL)
    screen.until("20/200")
    screen.resize(*size)

    def is_repainted(screen):
        heads = [line for line in screen.lines if line.startswith("model_bench")]
        return len(heads) == 1

    screen.write(b"\n")
    screen.until(lambda screen: "70/200" in screen.text and is_repainted(screen))
    screen.write(b"\n")
    assert screen.end() == 0


def test_a_stopped_terminal_holds_nothing_up(terminal):
    screen = terminal("""
import termios
termios.tcflow(2, termios.TCOOFF)
begin = time.monotonic()
with open_it() as display:
    display.handle(prepared(planned=100_000))
    for n in range(20_000):
        display.handle(started(f"t{n}"))
        display.handle(finished(f"t{n}"))
        display.log(f"line {n}")
    done = time.monotonic()
closed = time.monotonic()
termios.tcflow(2, termios.TCOON)
print(f"handled={done - begin < 8} closed={closed - done < 2}", flush=True)
sys.stdin.readline()
""")
    screen.until("handled=")
    assert "handled=True closed=True" in screen.text
    screen.write(b"\n")
    assert screen.end() == 0


def test_nothing_is_written_after_the_display_is_closed(terminal):
    screen = terminal("""
import termios
display = open_it()
display.handle(prepared())
time.sleep(0.5)
termios.tcflow(2, termios.TCOOFF)
display.log("late " * 1000)
time.sleep(0.5)
display.close()
termios.tcflow(2, termios.TCOON)
print("RESULT", flush=True)
time.sleep(0.5)
print("END", flush=True)
sys.stdin.readline()
""")
    screen.until("END")
    assert "RESULT" in screen.text
    assert "late" not in screen.text
    screen.write(b"\n")


def test_a_killed_process_leaves_the_cursor_visible(terminal):
    screen = terminal("""
import os
display = open_it()
display.handle(prepared())
time.sleep(1)
os.kill(os.getpid(), 9)
""")
    screen.until("model_bench_harness")
    screen.end()
    assert screen.cursor_is_shown


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_plain_lines(terminal, environ):
    screen = terminal("with open_it() as display: display.handle(prepared())", **environ)
    assert screen.end() == 0
    assert "attempts planned" in screen.text
    assert b"\x1b" not in screen.raw


def test_no_color_leaves_the_cursor_sequences_only(terminal):
    screen = terminal(FULL, NO_COLOR="1")
    screen.until("20/200")
    screen.write(b"\n\n")
    assert screen.end() == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", screen.raw)


def test_an_ascii_terminal_gets_ascii_bytes(terminal):
    screen = terminal(FULL.replace("task-", "t\xe4sk-"), PYTHONIOENCODING="ascii")
    screen.until("20/200")
    screen.write(b"\n\n")
    assert screen.end() == 0
    assert max(screen.raw) < 128
    assert b"t\\xe4sk-20" in screen.raw


def test_rich_is_imported_for_terminals_only(terminal):
    code = """
import sys
from agentcompass.progress.display import open_display
from agentcompass.secrets import Scrubber
from support.scripted_run import prepared
with open_display("auto", scrubber=Scrubber()) as display: display.handle(prepared())
print("rich" in sys.modules)
"""
    done = _run(code)
    assert done.stdout == "False\n"


# --- plain


def test_plain_lines_are_complete_and_stamped():
    assert lines_of(prepared(planned=1), finished("a", at=START + 60), request_finished()) == [
        "2027-01-15T08:00:00Z demo: 1 attempt planned",
        "2027-01-15T08:00:00Z demo: results in results/demo/r1",
        "2027-01-15T08:00:00Z demo: 100%, 1/1 done | accuracy 1.000 [0.207, 1.000] | 1 graded | 1/min",
        "2027-01-15T08:00:00Z demo: completed | accuracy 0.500 [0.200, 0.800] | coverage 100.0%",
    ]


def test_warnings_and_errors_are_marked():
    assert lines_of(
        events.Notice(at=START, level="warning", text="odd"),
        events.Notice(at=START, level="error", text="bad"),
    ) == ["2027-01-15T08:00:00Z WARNING odd", "2027-01-15T08:00:00Z ERROR bad"]


def test_a_log_message_of_several_lines_cannot_pass_for_others():
    stream = io.StringIO()
    with open_display("plain", stream=stream, scrubber=Scrubber(), clock=lambda: START) as display:
        display.log("one\n\x1b[2Jtwo")
    assert stream.getvalue() == "2027-01-15T08:00:00Z one\n2027-01-15T08:00:00Z     two\n"


def test_none_shows_only_what_must_be_cleaned_up_by_hand():
    said = lines_of(
        prepared(),
        failed("a"),
        events.SandboxesLeft(at=START, names=("box-1",), hint="agentcompass env close"),
        request_finished("failed"),
        mode="none",
    )
    assert [line.split(" ", 2)[2] for line in said] == [
        "1 sandbox could not be confirmed gone:",
        "  box-1",
        "agentcompass env close",
    ]


def test_secrets_are_not_shown():
    said = lines_of(failed("a", message="key sk-verysecret is wrong"), secret="sk-verysecret")
    assert said[0].endswith("key [secret] is wrong")


def test_what_is_told_after_the_end_is_dropped():
    stream = io.StringIO()
    display = open_display("plain", stream=stream, scrubber=Scrubber())
    display.close()
    display.close()
    display.handle(prepared())
    display.log("late")
    assert stream.getvalue() == ""


def test_no_standard_error_is_no_problem(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with open_display("auto", scrubber=Scrubber()) as display:
        display.handle(prepared())


def test_a_fault_in_the_display_does_not_reach_the_run():
    class Broken(events.Event):
        kind = "broken"

        @property
        def at(self):
            raise RuntimeError("no time")

    with open_display("plain", stream=io.StringIO(), scrubber=Scrubber()) as display:
        display.handle(object.__new__(Broken))


def test_a_stream_that_fails_as_no_stream_should_ends_the_display_and_not_the_run():
    class Odd(io.StringIO):
        def write(self, _text):
            raise RuntimeError("no such pen")

    with open_display("plain", stream=Odd(), scrubber=Scrubber()) as display:
        display.handle(prepared())
        display.log("and so on")


def test_many_threads_may_tell_at_once():
    stream = io.StringIO()
    with open_display("plain", stream=stream, scrubber=Scrubber(), clock=lambda: START) as display:
        display.handle(prepared(planned=400))
        times = itertools.count(START + 3, 3)

        def tell(prefix):
            for n in range(100):
                display.handle(started(f"{prefix}-{n}"))
                display.handle(finished(f"{prefix}-{n}", at=next(times)))

        threads = [threading.Thread(target=tell, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "100%, 400/400 done" in stream.getvalue()


def test_lines_that_nobody_takes_are_bounded_and_counted():
    gate = threading.Event()

    class Slow(io.StringIO):
        def write(self, text):
            gate.wait(10)
            return super().write(text)

    stream = Slow()
    display = open_display("plain", stream=stream, scrubber=Scrubber(), clock=lambda: START)
    for n in range(10_000):
        display.log(f"line {n}")
    gate.set()
    display.close()
    said = stream.getvalue()
    assert re.search(r"left out: [\d,]+ lines that nobody took", said)
    assert said.endswith("line 9999\n")


@pytest.mark.parametrize("mode", ["auto", "plain"])
def test_a_closed_pipe_ends_the_display_and_not_the_run(mode):
    code = f"""
with open_it({mode!r}) as display:
    for n in range(50):
        display.log("line")
        time.sleep(0.01)
print("ran on")
"""
    with _start(code) as child:
        child.stderr.close()
        assert child.stdout.read() == "ran on\n"
        assert child.wait(10) == 0


def test_a_full_pipe_ends_neither_the_run_nor_hangs_its_end():
    code = """
begin = time.monotonic()
with open_it("plain") as display:
    for n in range(5000):
        display.log("line " * 20)
print("closed in time", time.monotonic() - begin < 4)
"""
    with _start(code) as child:
        assert child.stdout.read() == "closed in time True\n"
        assert child.wait(10) == 0
        child.stderr.close()


@pytest.mark.parametrize(
    "environ",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_a_stream_without_unicode_is_written_in_ascii(environ):
    code = """
with open_it("plain") as display:
    display.handle(prepared(request="d\\xe9mo"))
    display.log("\\u65e5\\u672c \\ud800")
"""
    done = _run(PRELUDE + code, **environ)
    assert done.returncode == 0
    assert "d\\xe9mo: 10 attempts planned" in done.stderr
    assert "\\u65e5\\u672c \\ufffd" in done.stderr


def test_the_minute_line_comes_without_any_event():
    stream = io.StringIO()
    now = [START]
    with open_display("plain", stream=stream, scrubber=Scrubber(), clock=lambda: now[0]) as display:
        display.handle(prepared())
        deadline = time.monotonic() + 10
        while "results in" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        now[0] += 61
    assert "0/10 done" in stream.getvalue().splitlines()[-1]


def _environment(environ):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return {**os.environ, "PYTHONPATH": path, **environ}


def _run(code, **environ):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
        env=_environment(environ),
    )


def _start(code):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment({}),
    )
