from __future__ import annotations

import re
import time

import pytest
from rich.cells import cell_len

from agentcompass.progress import events, text
from agentcompass.progress.panel import Panel
from agentcompass.progress.tracker import Tracker
from agentcompass.records import Usage
from agentcompass.secrets import Scrubber
from support.scripted_run import (
    START,
    failed,
    finished,
    phase,
    prepared,
    request_finished,
    retried,
    started,
)


def frame(*what, columns=80, rows=24, now=START + 100, encoding="utf-8", environ=None):
    scrubber = Scrubber()
    scrubber.register("sk-verysecret")
    tracker = Tracker()
    for event in what:
        tracker.apply(event)
    clean = text.cleaner(scrubber.scrub)
    panel = Panel("model_bench_harness", clean, encoding, environ or {"TERM": "xterm-256color"})
    return panel.render(panel.compose(tracker, now, columns, rows))


def plain(lines):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


MANY = [
    prepared(planned=500),
    *(started(f"task-{n}", at=START + n / 100) for n in range(300)),
    *(phase(f"task-{n}", "run" if n % 3 else "evaluate", at=START + n / 10) for n in range(300)),
    *(
        finished(f"task-{n}", at=START + n, usage=Usage(calls=1, input_tokens=900))
        for n in range(40)
    ),
    failed("task-40", at=START + 41),
]


def test_a_frame_says_all_that_matters():
    lines = plain(
        frame(
            *MANY,
            events.LimitsChanged(
                at=START, request="demo", running=9, waiting={"provider:docker": 4}
            ),
        )
    )
    assert lines[0] == "model_bench_harness  1m 40s"
    assert lines[1].endswith(" 41/500   8%")
    assert "accuracy 1.000 [0.912, 1.000] \u00b7 40 graded, 1 infra" in lines[2]
    assert "24.6/min \u00b7 18m 39s left \u00b7 36k tokens, $0.00" in lines[3]
    assert lines[4] == "waiting for provider:docker 4"
    assert lines[5] == "259 active: run 173 \u00b7 evaluate 86"
    assert lines[6].split() == ["task-41", "run", "1m", "35s"]


@pytest.mark.parametrize("columns", [1, 10, 39, 80, 300])
@pytest.mark.parametrize("rows", [1, 2, 5, 24, 100])
def test_a_frame_fits_every_terminal(columns, rows):
    lines = plain(frame(*MANY, columns=columns, rows=rows))
    assert len(lines) <= max(1, rows - 1)
    assert all(cell_len(line) <= max(1, columns - 1) for line in lines)


def test_names_from_outside_are_made_harmless():
    lines = plain(frame(prepared(), started("\x1b[2J\u65e5\u672c sk-verysecret\nx", at=START)))
    assert lines[-1].split()[:3] == ["\u65e5\u672c", "[secret]", "x"]


def test_an_ascii_terminal_gets_ascii():
    for line in frame(*MANY, encoding="ascii", columns=40):
        line.encode("ascii")


def test_no_color_means_no_colour():
    coloured = "".join(frame(*MANY))
    bare = "".join(frame(*MANY, environ={"TERM": "xterm-256color", "NO_COLOR": "1"}))
    assert re.search(r"\x1b\[[0-9;]*3[0-7]", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", bare)


def test_running_requests_come_before_finished_ones():
    lines = plain(
        frame(
            prepared(request="first", planned=1),
            prepared(request="second", planned=1),
            request_finished(request="first"),
        )
    )
    assert lines[1].startswith("all requests ")
    assert lines[2].startswith("second ")
    assert lines[4].startswith("first ")
    assert lines[5].endswith("completed")


def test_requests_beyond_the_room_are_counted():
    lines = plain(frame(*(prepared(request=f"r{n}") for n in range(50)), rows=20))
    assert any(re.fullmatch(r"  and \d+ more requests", line) for line in lines)


def test_cleanup_counts_its_grace_down():
    notice = events.CleanupStarted(at=START, reason="sigint", sandboxes=12, grace_seconds=30)
    line = plain(frame(notice, now=START + 9))[1]
    assert line.startswith("cleaning up (sigint): 12 sandboxes, 21 s left")


def test_cleanup_tells_how_many_sandboxes_are_left_and_no_expected_end():
    lines = plain(
        frame(
            prepared(planned=9),
            *(finished(f"t{n}", at=START + n) for n in range(4)),
            events.CleanupStarted(at=START + 5, reason="timeout", sandboxes=12, grace_seconds=30),
            events.LimitsChanged(at=START + 6, running=3, waiting={"retry": 2}, sandboxes=3),
            now=START + 9,
        )
    )
    assert lines[1].startswith("cleaning up (timeout): 3 of 12 sandboxes, 26 s left")
    assert not any("waiting for" in line for line in lines)
    assert sum(" left" in line for line in lines) == 1


def test_an_attempt_tells_what_is_special_about_it_and_calls_tried_again_are_counted():
    lines = plain(
        frame(
            prepared(planned=9),
            started("t0", attempt=2, execution=3),
            phase("t0", "open", attempt=2, detail="waits for the open rate"),
            started("t1"),
            phase("t1", "run"),
            *(retried("t1", at=START + 90) for _ in range(4)),
            columns=120,
        )
    )
    assert any(
        "t0 #2" in line and "try 3" in line and "waits for the open rate" in line for line in lines
    )
    assert any("t1" in line and "4 model retries" in line for line in lines)
    assert any("4 rate-limited in the last minute" in line for line in lines)


def test_composing_a_frame_of_a_thousand_attempts_is_quick():
    tracker = Tracker()
    for n in range(1000):
        tracker.apply(started(f"task-{n}"))
    panel = Panel("t", text.cleaner(Scrubber().scrub), "utf-8", {})
    panel.compose(tracker, START, 80, 24)
    best = min(_seconds(lambda: panel.compose(tracker, START, 80, 24)) for _ in range(5))
    assert best < 0.05


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def held(**endpoints):
    use = {"in_use": 12, "limit": 12, "cap": 256, "rpm": None, "tpm": None, "waiting": 20, "binds": "limit",
           "pause_seconds": 0, "others": 0}  # fmt: skip
    told = {host.replace("_", "."): use | changes for host, changes in endpoints.items()}
    return events.LimitsChanged(at=START, running=32, waiting={}, endpoints=told)


BINDING = {
    "limit 12 of 256": {},
    "limit 6 of 256, shared with 1 other run": {"limit": 6, "binds": "others", "others": 1},
    "paused 8s": {"binds": "pause", "pause_seconds": 8},
    "rpm 500": {"binds": "rpm", "rpm": 500},
    "tpm 30000, shared with 2 other runs": {"binds": "tpm", "tpm": 30000, "others": 2},
    "asking other runs": {"binds": "start"},
}


@pytest.mark.parametrize("said", BINDING)
def test_a_frame_says_what_holds_model_calls_back(said):
    lines = plain(frame(prepared(), held(api_example_com=BINDING[said])))
    assert f"20 calls at api.example.com: {said}" in lines


def test_of_many_endpoints_only_some_are_shown_and_none_of_those_whose_names_would_steer():
    many = {f"h{n}": {} for n in range(10)}
    lines = plain(frame(prepared(), held(**many)))
    assert sum("calls at" in line for line in lines) == 3
    lines = plain(frame(prepared(), held(**{"\x1b[2J:sk-verysecret": {}})))
    assert "20 calls at :[secret]: limit 12 of 256" in lines


def test_during_cleanup_nothing_is_said_of_calls_that_wait():
    notice = events.CleanupStarted(at=START, reason="sigint", sandboxes=1, grace_seconds=30)
    assert not any("calls at" in line for line in plain(frame(prepared(), held(h={}), notice)))
