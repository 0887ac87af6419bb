from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from contextvars import copy_context

import pytest

from agentcompass.progress import logs
from agentcompass.progress.package_logger import TAP
from agentcompass.secrets import Scrubber
from support.scripts import ENVIRONMENT

LOG = logging.getLogger("agentcompass.engine.attempt")
PACKAGE = logging.getLogger("agentcompass")


class Shown:
    """A display that remembers."""

    def __init__(self):
        self.lines = []

    def log(self, text, level="info"):
        self.lines.append((level, text))


@pytest.fixture
def root():
    """What an application's own handler gets."""
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    handler = Handler()
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def scrubber(*values):
    made = Scrubber()
    made.register(*values)
    return made


def in_run(orchestration, request, call):
    def run():
        logs.current_orchestration.set(orchestration)
        logs.current_request.set(request)
        return call()

    return copy_context().run(run)


def test_a_run_log_gets_what_its_request_says_and_nothing_else(tmp_path):
    sinks = {
        name: in_run(
            "orch",
            name,
            lambda name=name: logs.open_run_log(tmp_path / name, "DEBUG", scrubber(), name),
        )
        for name in ("one", "two")
    }
    in_run("orch", "one", lambda: LOG.info("about %s", "one"))
    in_run("orch", "two", lambda: LOG.debug("about two"))
    in_run("orch", "", lambda: LOG.info("about all"))
    LOG.info("about nothing")
    for sink in sinks.values():
        sink.close()
    line = (tmp_path / "one").read_text()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO     agentcompass\.engine\.attempt \[one\] about one\n",
        line,
    )
    assert (tmp_path / "two").read_text().endswith("about two\n")


def test_two_runs_of_one_name_in_a_process_do_not_mix(tmp_path):
    sinks = [
        in_run(
            orchestration,
            "same",
            lambda path=tmp_path / orchestration: logs.open_run_log(
                path, "DEBUG", scrubber(), "same"
            ),
        )
        for orchestration in ("a", "b")
    ]
    in_run("a", "same", lambda: LOG.info("only a"))
    for sink in sinks:
        sink.close()
    assert "only a" in (tmp_path / "a").read_text()
    assert (tmp_path / "b").read_text() == ""


def test_the_extra_log_file_gets_all_requests_of_its_orchestration(tmp_path):
    sink = in_run("o", "", lambda: logs.open_log_file(tmp_path / "all", "INFO", scrubber()))
    for request in ("one", "two", ""):
        in_run("o", request, lambda: LOG.info("said"))
    in_run("other", "one", lambda: LOG.info("said"))
    sink.close()
    lines = (tmp_path / "all").read_text().splitlines()
    assert [line.split("attempt ")[1] for line in lines] == ["[one] said", "[two] said", "said"]


def test_secrets_in_messages_and_tracebacks_are_not_written(tmp_path):
    with logs.open_run_log(tmp_path / "log", "DEBUG", scrubber("sk-verysecret"), ""):
        LOG.info("key %s", "sk-verysecret")
        try:
            raise ValueError("bad key sk-verysecret")
        except ValueError:
            LOG.exception("failed")
    text = (tmp_path / "log").read_text()
    assert "sk-verysecret" not in text
    assert "ValueError: bad key [secret]" in text


def test_text_from_outside_cannot_forge_a_line(tmp_path):
    with logs.open_run_log(tmp_path / "log", "DEBUG", scrubber(), ""):
        LOG.info("agent said: %s", "hi\n2026-01-01T00:00:00.000Z ERROR \x1b[2Jforged\u2028more")
    first, *rest = (tmp_path / "log").read_text().splitlines()
    assert first.endswith("agent said: hi")
    assert rest == ["    2026-01-01T00:00:00.000Z ERROR forged", "    more"]


def test_the_level_of_each_file_is_its_own(tmp_path):
    with (
        logs.open_log_file(tmp_path / "warn", "WARNING", scrubber()),
        logs.open_log_file(tmp_path / "debug", "DEBUG", scrubber()),
    ):
        LOG.debug("detail")
        LOG.warning("careful")
    assert "detail" not in (tmp_path / "warn").read_text()
    assert "detail" in (tmp_path / "debug").read_text()


def test_the_root_logger_and_the_package_logger_are_left_as_they_were(tmp_path):
    PACKAGE.setLevel(logging.WARNING)
    try:
        root_before = (logging.getLogger().level, list(logging.getLogger().handlers))
        before = (PACKAGE.level, PACKAGE.propagate, list(PACKAGE.handlers))
        with logs.open_log_file(tmp_path / "log", "DEBUG", scrubber()):
            assert (logging.getLogger().level, list(logging.getLogger().handlers)) == root_before
        assert (PACKAGE.level, PACKAGE.propagate, list(PACKAGE.handlers)) == before
    finally:
        PACKAGE.setLevel(logging.NOTSET)


def test_an_application_gets_what_it_would_have_got_without_us(tmp_path, root):
    with logs.open_log_file(tmp_path / "log", "DEBUG", scrubber()):
        LOG.debug("detail")
        LOG.warning("careful")
    LOG.warning("later")
    assert root == ["careful", "later"]


def test_the_console_shows_messages_without_tracebacks():
    shown = Shown()
    with logs.attach_display(shown, "INFO"):
        LOG.debug("detail")
        LOG.info("fact")
        logs.current_request.set("")
        try:
            raise ValueError("cause")
        except ValueError:
            LOG.exception("failed")
    assert shown.lines == [("info", "fact"), ("error", "failed")]


def test_the_console_shows_tracebacks_at_debug():
    shown = Shown()
    with logs.attach_display(shown, "DEBUG"):
        try:
            raise ValueError("cause")
        except ValueError:
            LOG.warning("failed", exc_info=True)
    ((level, text),) = shown.lines
    assert level == "warning"
    assert text.startswith("failed\nTraceback")
    assert text.endswith("ValueError: cause")


def test_a_log_call_with_wrong_arguments_is_a_line_and_no_noise(tmp_path, capsys):
    with logs.open_log_file(tmp_path / "log", "DEBUG", scrubber()):
        LOG.info("%d", "no number")
    assert "cannot be formatted, from " in (tmp_path / "log").read_text()
    assert capsys.readouterr().err == ""


def test_a_full_disk_stops_neither_the_run_nor_its_end(capsys):
    from pathlib import Path

    with logs.open_log_file(Path("/dev/full"), "DEBUG", scrubber()):
        LOG.info("lost")
    assert capsys.readouterr().err == ""


def test_lone_surrogates_and_long_messages_are_written(tmp_path):
    with logs.open_log_file(tmp_path / "log", "DEBUG", scrubber()):
        LOG.info("x\ud800%s", "y" * 1_000_000)
    assert 100_000 <= len((tmp_path / "log").read_text()) < 101_000


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        logs.open_log_file(tmp_path / "no" / "log", "DEBUG", scrubber())
    assert PACKAGE.handlers == []


def test_closing_twice_is_fine(tmp_path):
    sink = logs.open_log_file(tmp_path / "log", "DEBUG", scrubber())
    sink.close()
    sink.close()


def test_a_disk_that_does_not_keep_up_loses_messages_and_says_how_many(tmp_path):
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)  # so that opening it to write does not wait
    sink = logs.open_log_file(fifo, "DEBUG", scrubber())
    for n in range(20_000):
        LOG.info("message %d %s", n, "x" * 100)
    got = []
    drain = threading.Thread(target=_read_to_the_word, args=(reader, got, b"the last one"))
    drain.start()
    while not b"".join(got):
        time.sleep(0.01)
    LOG.info("the last one")
    sink.close()
    drain.join(60)
    os.close(reader)
    lines = b"".join(got).decode().splitlines()
    (lost,) = (int(line.split()[3].replace(",", "")) for line in lines if line.startswith("... "))
    assert lost > 0
    assert len(lines) - 1 + lost == 20_001


def _read_to_the_word(descriptor, got, word):
    while word not in b"".join(got[-2:]):
        try:
            got.append(os.read(descriptor, 1 << 20))
        except BlockingIOError:
            time.sleep(0.005)


def test_a_full_disk_that_has_room_again_gets_what_was_said_meanwhile(tmp_path):
    path = tmp_path / "log"
    code = f"""
import logging, resource, signal, time
from pathlib import Path
from agentcompass.progress import logs
from agentcompass.secrets import Scrubber
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
log = logging.getLogger("agentcompass.engine")
with logs.open_log_file(Path({str(path)!r}), "DEBUG", Scrubber()):
    log.info("does not fit")
    time.sleep(0.3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.info("there is room")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=ENVIRONMENT)
    said = [line.rpartition("engine ")[2] for line in path.read_text().splitlines()]
    assert said == ["does not fit", "there is room"]


def test_handlers_of_the_package_come_and_go_in_any_order(tmp_path):
    first = logs.open_log_file(tmp_path / "first", "WARNING", scrubber())
    second = logs.open_log_file(tmp_path / "second", "DEBUG", scrubber())
    LOG.debug("for the second")
    second.close()
    LOG.debug("for nobody")
    LOG.warning("for the first")
    first.close()
    assert "for the second" in (tmp_path / "second").read_text()
    assert (tmp_path / "first").read_text().count("\n") == 1
    assert PACKAGE.handlers == []


def test_an_application_that_keeps_the_package_to_itself_keeps_it(tmp_path, root):
    PACKAGE.propagate = False
    try:
        with logs.open_log_file(tmp_path / "log", "INFO", scrubber()):
            LOG.warning("between us")
        assert PACKAGE.propagate is False
    finally:
        PACKAGE.propagate = True
    assert root == []
    assert "between us" in (tmp_path / "log").read_text()


def test_what_nobody_added_can_be_taken_away():
    TAP.remove(logging.NullHandler())
    assert PACKAGE.handlers == []
