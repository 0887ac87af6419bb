"""How `agentcompass status` puts what it found."""

from pathlib import Path

import attrs
import pytest

from agentcompass.api.standing import Activity, Ending, RequestStanding, Standing, Trouble
from agentcompass.cli.standing import text_of
from agentcompass.progress.text import cells
from agentcompass.records import ProcessIdentity, Usage

NOW = 1_767_225_600.0


def request(name="demo", **fields):
    known = {
        "run_id": "r1",
        "run_dir": "results/demo/r1",
        "status": "running",
        "planned": 164,
        "done": 98,
        "running": 32,
        "waiting": 34,
        "verdicts": {"graded": 96, "infra": 2, "cancelled": 0, "skipped": 0},
        "metric": "correct",
        "score": 0.714,
        "ci95": (0.618, 0.794),
    }
    return RequestStanding(name=name, **{**known, **fields})


EMPTY = request(planned=0, done=0, running=0, waiting=0, verdicts={}, score=None)


def standing(*requests, **fields):
    known = {
        "kind": "run" if len(requests) < 2 else "launch",
        "id": "r1",
        "name": "demo",
        "directory": "/data/results/demo/r1",
        "status": "running",
        "process": ProcessIdentity(boot_id="b", pid=4711, started=1),
        "process_state": "alive",
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": None,
        "elapsed_seconds": 725.0,
        "ended_by": None,
        "ending": None,
        "per_second": None,
        "left_seconds": None,
        "model_retries": {},
        "activities": (),
        "troubles": (),
    }
    return Standing(requests=requests or (request(),), **{**known, **fields})


def activity(task="t1", **fields):
    known = {"request": "demo", "attempt": 1, "execution": 1, "seconds": 200.0, "phase": "run"}
    known |= {"phase_seconds": 192.0, "waits_for": "", "model_retries": 0}
    return Activity(task=task, **{**known, **fields})


def trouble(code="rate-limited", **fields):
    known = {"request": "demo", "count": 12, "seconds_ago": 40.0, "task": "t7", "message": "429"}
    return Trouble(code=code, **{**known, **fields})


def lines(found, others=(), columns=80, results_dir="/data/results"):
    return text_of(found, others, columns, NOW, results_dir=Path(results_dir)).splitlines()


def test_a_run_under_way_in_ten_lines():
    found = standing(
        request(waiting_for_retry=1, reused=3, usage=Usage(calls=9, input_tokens=1000, output_tokens=240, cost_usd=3.1)),
        per_second=0.135,
        activities=(activity("HumanEval/17", model_retries=2), activity("HumanEval/23", phase="", phase_seconds=1)),
        troubles=(trouble(),),
    )  # fmt: skip
    assert lines(found) == [
        "demo: running, 12m 05s",
        "process    4711, alive",
        "attempts   164 planned: 98 done, 32 running, 34 waiting (1 for a retry)",
        "verdicts   96 graded, 2 infra, 3 reused",
        "correct    0.714 [0.618, 0.794] so far",
        "speed      8.1/min",
        "tokens     1.24k, $3.10",
        "running (2):",
        "  HumanEval/17  run    3m 12s  2 model retries",
        "  HumanEval/23  start  1s",
        "trouble:",
        "  12  rate-limited  40s ago  t7: 429",
        "results    /data/results/demo/r1",
    ]


def test_the_expected_end_is_told_as_a_time_too():
    (line,) = [one for one in lines(standing(left_seconds=490.0)) if one.startswith("speed")]
    assert line.startswith("speed      about 8m 10s left (")


def test_an_end_beyond_all_calendars_has_no_time():
    (line,) = [one for one in lines(standing(left_seconds=1e300)) if one.startswith("speed")]
    assert line.endswith("left")


def test_a_run_that_is_being_ended_counts_its_grace_down_and_expects_no_end():
    found = standing(ending=Ending(reason="sigint", seconds_left=21.4), left_seconds=490.0)
    assert "ending     by sigint; cleanup has 21s left" in lines(found)
    assert not any(line.startswith("speed") for line in lines(found))


def test_model_calls_tried_again_are_told():
    assert any("in the last minute: 5 rate-limited, 1 stalled" in line for line in lines(
        standing(model_retries={"rate-limited": 5, "stalled": 1})
    ))  # fmt: skip


def test_a_process_that_cannot_be_seen_is_alive_elsewhere():
    assert "process    4711 elsewhere: another host or container, alive" in lines(
        standing(process_state="elsewhere")
    )


def test_an_interrupted_run_says_what_is_missing_what_may_be_left_and_how_to_go_on():
    left = request(
        status="interrupted",
        running=0,
        waiting=66,
        sandboxes=3,
        finish_command="agentcompass run a b c --reuse r1",
    )
    found = standing(left, status="interrupted", process_state="gone", elapsed_seconds=None)
    said = lines(found)
    assert said[0] == "demo: interrupted"
    assert "process    4711 is gone: it ended without writing its last state" in said[1][:65]
    assert "attempts   164 planned: 98 done, 66 missing" in said
    assert "correct    0.714 [0.618, 0.794] so far" in said
    assert "sandboxes  3 may be left: `agentcompass env close` removes them" in said
    assert said[-1] == "next       agentcompass run a b c --reuse r1"


def test_a_run_that_is_over_shows_its_score_and_its_error():
    over = request(status="failed", done=164, running=0, waiting=0, error="too little coverage")
    said = lines(standing(over, status="failed"))
    assert "correct    0.714 [0.618, 0.794] so far" in said
    assert "error      too little coverage" in said
    assert not any(line.startswith(("process", "next")) for line in said)


def test_attempts_that_are_not_needed_are_told():
    assert any("4 not needed" in line for line in lines(standing(request(not_needed=4))))


def test_open_sandboxes_of_a_run_under_way_are_a_number():
    assert "sandboxes  3" in lines(standing(request(sandboxes=3)))


def test_a_launch_is_a_table_and_its_parts_name_their_request():
    found = standing(
        request("one"),
        attrs.evolve(EMPTY, name="two", status="preparing"),
        attrs.evolve(EMPTY, name="three", status="unreadable", error="gone"),
        activities=(activity(request="one", attempt=2, execution=3, waits_for="the open rate"),),
        troubles=(trouble(request="one"), trouble("warning", request="one", count=1, task="")),
    )
    assert lines(found) == [
        "demo: running, 12m 05s",
        "request  status      done    running  waiting  score",
        "one      running     98/164  32       34       0.714 [0.618, 0.794] so far",
        "two      preparing   -       -        -        -",
        "three    unreadable  -       -        -        -",
        "process    4711, alive",
        "attempts   164 planned: 98 done, 32 running, 34 waiting",
        "verdicts   96 graded, 2 infra",
        "running (1):",
        "  t1 #2  run  3m 12s  try 3, waits for the open rate, one",
        "trouble:",
        "  12  rate-limited  40s ago  one: t7: 429",
        "  1   warning       40s ago  one: 429",
        "error      three: gone",
        "results    /data/results/demo/r1",
    ]


def test_an_interrupted_launch_is_launched_again():
    parts = [request(name, status="interrupted") for name in ("one", "two")]
    found = standing(*parts, status="interrupted", directory="/data/results/demo")
    end = ", with the file and options of this launch"
    assert lines(found)[-1] == f"next       agentcompass launch FILE --reuse{end}"
    elsewhere = lines(found, results_dir="/other")[-1]
    assert (
        elsewhere == f"next       agentcompass launch FILE --reuse --results-dir /data/results{end}"
    )


def test_a_launch_without_anything_graded_has_nothing_to_reuse():
    parts = [request(name, status="interrupted", done=0) for name in ("one", "two")]
    said = lines(standing(*parts, status="interrupted"))
    assert said[-1].startswith("next       agentcompass launch FILE, with")


@pytest.mark.parametrize(
    ("names", "directory"), [(["one"], "/data/my runs/x/r1"), (["one", "two"], "/data/my runs")]
)
def test_sandboxes_elsewhere_are_removed_by_a_command_that_names_the_place(names, directory):
    parts = [request(name, status="interrupted", sandboxes=1) for name in names]
    own = "/data/my runs/x" + ("/r1" if len(names) == 1 else "")
    (line,) = [
        one
        for one in lines(standing(*parts, status="interrupted", directory=own))
        if one.startswith("sandboxes")
    ]
    assert f"`agentcompass env close '{directory}'`" in line


def test_requests_that_did_not_complete_have_a_score_so_far_or_none():
    over = {"running": 0, "status": "cancelled"}
    parts = [request("one", ci95=None, **over), request("two", score=None, **over)]
    said = lines(standing(*parts, status="cancelled"))
    assert said[2].endswith("34       0.714 so far")
    assert said[3].endswith("34       n/a")


@pytest.mark.parametrize("columns", [80, 120])
def test_long_ids_messages_and_names_do_not_leave_the_screen(columns):
    name = "n" * 300
    found = standing(
        request(name),
        request("two"),
        activities=(activity("\u6771\u4eac" * 90, request=name), activity("t" * 300, request=name)),
        troubles=(trouble("c" * 90, request=name, message="m" * 900),),
    )
    assert max(map(cells, lines(found, columns=columns))) <= columns


def test_many_are_cut_and_counted():
    found = standing(
        activities=tuple(activity(f"t{n}") for n in range(32)),
        troubles=tuple(trouble(f"cause-{n}") for n in range(9)),
    )
    said = lines(found)
    assert "  and 22 more" in said
    assert any(line.split() == ["...", "4", "more", "causes"] for line in said)


def test_texts_of_others_are_one_line_each_and_move_no_cursor():
    evil = "a\nb\x1b[2J"
    found = standing(
        request(evil, error=evil, metric=evil),
        name=evil,
        directory=evil,
        activities=(activity(evil, phase=evil),),
        troubles=(trouble(evil, message=evil, task=evil),),
    )
    said = text_of(found, [Path(evil)], 80, NOW)
    assert "\x1b" not in said
    assert said.count("a b") >= 7
    assert not any(line.startswith("b") for line in said.splitlines())


def test_what_else_is_under_way_is_named():
    said = lines(standing(), others=[Path("/data/results/other/r9")])
    assert said[-1] == "also       /data/results/other/r9"


def test_a_run_without_plan_has_no_attempts_to_tell():
    said = lines(standing(EMPTY))
    assert not any(line.startswith(("attempts", "verdicts", "correct")) for line in said)
