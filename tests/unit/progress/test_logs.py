from __future__ import annotations

import logging
import re
from contextvars import copy_context

import pytest

from agentcompass.progress import logs
from agentcompass.secrets import Scrubber

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
