from __future__ import annotations

from agentcompass.progress import events, text
from agentcompass.progress.narrator import Narrator
from agentcompass.progress.tracker import Tracker
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


class Story:
    """A tracker and a narrator that hear the same."""

    def __init__(self, brief=False, secret=None):
        scrubber = Scrubber()
        scrubber.register(secret)
        self.tracker = Tracker()
        self.narrator = Narrator(self.tracker, text.cleaner(scrubber.scrub), brief=brief)

    def tell(self, *what):
        lines = []
        for event in what:
            self.tracker.apply(event)
            lines += [line.text for line in self.narrator.tell(event)]
        return lines

    def tick(self, now):
        return [line.text for line in self.narrator.tick(now)]


def test_the_start_says_how_much_there_is_to_do_and_where_results_go():
    assert Story().tell(prepared(planned=10, reused=4)) == [
        "demo: 10 attempts planned, 4 of them reused",
        "demo: results in results/demo/r1",
    ]


def test_every_tenth_of_the_work_is_a_line():
    story = Story()
    story.tell(prepared(planned=100))
    lines = [story.tell(finished(str(n), at=START + 5 + n)) for n in range(25)]
    assert [n for n, said in enumerate(lines) if said] == [9, 19]
    assert lines[9][0].startswith("demo: 10%, 10/100 done | accuracy 1.000 [0.722, 1.000]")


def test_a_run_that_is_over_in_a_moment_is_not_told_in_steps():
    story = Story()
    lines = story.tell(prepared(planned=10), *(finished(str(n), at=START + 1) for n in range(10)))
    assert len(lines) == 2


def test_the_live_display_gets_no_steps():
    story = Story(brief=True)
    story.tell(prepared(planned=2))
    assert story.tell(finished("a"), finished("b")) == []


def test_a_cause_of_failure_is_told_the_first_time_and_at_powers_of_ten():
    story = Story(brief=True)
    lines = [story.tell(failed(f"t{n}")) for n in range(100)]
    assert [n for n, said in enumerate(lines) if said] == [0, 9, 99]
    assert lines[0] == ["demo: first rate-limited (task t0): 429 from the endpoint"]
    assert lines[9] == ["demo: rate-limited for the 10th time"]


def test_two_causes_are_told_apart():
    story = Story(brief=True)
    assert len(story.tell(failed("a", "stalled"), failed("b", "unauthorized"))) == 2


def test_secrets_and_escapes_in_messages_are_not_told():
    story = Story(brief=True, secret="sk-verysecret")
    message = "\x1b[2Jkey sk-verysecret\nrefused" + "x" * 10_000
    (line,) = story.tell(failed("a", message=message))
    assert line.startswith("demo: first rate-limited (task a): key [secret] refused")
    assert len(line) < 400


def test_many_model_retries_within_a_minute_are_told_once():
    story = Story()
    lines = [line for n in range(100) for line in story.tell(retried("a", at=START + n / 10))]
    assert lines == ["many model calls are tried again: 20 rate-limited within a minute"]


def test_a_line_each_minute_says_how_it_stands():
    story = Story()
    story.tell(
        prepared(planned=100),
        started("slow-task"),
        phase("slow-task", "evaluate"),
        events.LimitsChanged(
            at=START,
            request="demo",
            running=1,
            waiting={"provider:docker": 7},
            endpoints={
                "h:8000": {
                    "limit": 2,
                    "cap": 4,
                    "waiting": 1,
                    "binds": "limit",
                    "pause_seconds": 0,
                    "others": 0,
                }
            },
        ),
    )
    assert story.tick(START) == []
    assert story.tick(START + 59) == []
    (line,) = story.tick(START + 61)
    assert "0/100 done" in line
    assert "1 active | waiting: 7 for provider:docker | 1 call at h:8000: limit 2 of 4" in line
    assert "longest: slow-task in evaluate for 1m 01s" in line
    assert story.tick(START + 90) == []


def test_several_requests_are_summed_in_the_line_each_minute():
    story = Story()
    story.tell(
        prepared(planned=2, request="one"),
        prepared(planned=3, request="two"),
        request_finished(request="one"),
    )
    story.tick(START)
    (line,) = story.tick(START + 61)
    assert line.startswith("1/2 requests finished | 0/5 attempts done")


def test_the_end_of_a_request_says_score_coverage_and_error():
    story = Story()
    story.tell(prepared(), prepared(request="other"))
    assert story.tell(request_finished("failed", error="coverage 0.5 is below 1.0")) == [
        "demo: failed | accuracy 0.500 [0.200, 0.800] | coverage 100.0%",
        "demo: coverage 0.5 is below 1.0",
    ]


def test_the_error_of_the_only_request_is_left_to_whoever_asked():
    assert len(Story().tell(request_finished("failed", error="coverage is too low"))) == 1


def test_a_request_that_never_began_has_no_score_to_tell():
    ended = request_finished("failed", None, error="no such file", run_dir=None)
    assert Story().tell(ended) == []
    story = Story()
    story.tell(prepared(request="other"))
    assert story.tell(ended) == ["demo: failed before its first attempt"]


def test_a_name_cannot_eat_what_stands_beside_it():
    story = Story()
    assert story.tell(prepared(request="m\x1b")) == [
        "m: 10 attempts planned",
        "m: results in results/demo/r1",
    ]
    (line,) = story.tell(failed("t\x1b[", code="c\x1b", request="m\x1b"))
    assert line == "m: first c (task t): 429 from the endpoint"


def test_one_of_a_kind_is_in_the_singular():
    story = Story()
    assert story.tell(prepared(planned=1))[0] == "demo: 1 attempt planned"
    (line,) = story.tell(
        events.CleanupStarted(at=START, reason="sigint", sandboxes=1, grace_seconds=30.0)
    )
    assert "removing 1 sandbox," in line


def test_cleanup_says_how_many_sandboxes_and_how_long():
    (line,) = Story().tell(
        events.CleanupStarted(at=START, reason="sigint", sandboxes=12, grace_seconds=30.0)
    )
    assert line == (
        "ending the run (sigint): removing 12 sandboxes, for at most 30 s; Ctrl-C again ends this now"
    )


def test_sandboxes_that_are_left_are_named():
    names = tuple(f"box-{n}" for n in range(25))
    lines = Story().tell(events.SandboxesLeft(at=START, names=names, hint="agentcompass env close"))
    assert lines[:2] == ["25 sandboxes could not be confirmed gone:", "  box-0"]
    assert lines[-2:] == ["  and 5 more", "agentcompass env close"]


def test_no_sandboxes_left_is_no_news():
    assert Story().tell(events.SandboxesLeft(at=START, names=(), hint="")) == []


def test_kept_sandboxes_come_with_the_way_in_until_there_are_too_many():
    story = Story()

    def kept(n):
        return events.SandboxKept(
            at=START, task=f"t{n}", attempt=1, name=f"box-{n}", hint=f"docker exec -it box-{n} sh"
        )

    lines = [line for n in range(100) for line in story.tell(kept(n))]
    assert lines[0] == "kept sandbox box-0 (task t0): docker exec -it box-0 sh"
    assert lines[20:] == ["100 sandboxes are kept; `agentcompass env list` shows all"]


def test_retries_are_told_beside_the_verdicts():
    story = Story()
    story.tell(prepared(planned=100), failed("a", will_retry=True), failed("b", will_retry=True))
    (line,) = story.tell(*(finished(f"t{n}", at=START + 9) for n in range(10)))[-1:]
    assert "10 graded, 2 retries" in line


# --- the countdown of cleanup


def ending(sandboxes=2, grace=30.0, at=START):
    return events.CleanupStarted(at=at, reason="sigint", sandboxes=sandboxes, grace_seconds=grace)


def left(sandboxes, at=START):
    return events.LimitsChanged(at=at, running=0, waiting={}, sandboxes=sandboxes)


def test_cleanup_says_how_many_attempts_it_cancels():
    story = Story()
    (line,) = story.tell(started("a"), started("b"), ending())
    assert line.startswith("ending the run (sigint): cancelling 2 attempts, removing 2 sandboxes,")


def test_cleanup_counts_down_and_names_what_takes_longest():
    story = Story()
    tasks = [
        event
        for n in range(5)
        for event in (started(f"t{n}"), phase(f"t{n}", "close", at=START + n))
    ]
    story.tell(*tasks, ending(5, at=START + 5), left(4))
    assert story.tick(START + 9) == []
    assert story.tick(START + 11) == [
        "cleaning up: 4 of 5 sandboxes, 24s left | t0 in close for 11s, t1 in close for 10s, t2 in close for 9s, 2 more"
    ]
    assert story.tick(START + 15) == []
    assert len(story.tick(START + 16)) == 1


def test_an_attempt_that_ends_before_its_first_phase_is_named_too():
    story = Story()
    story.tell(started("t0"), ending(1))
    (line,) = story.tick(START + 6)
    assert line.endswith("t0 in start for 6s")


def test_a_long_grace_is_counted_in_a_dozen_lines():
    story = Story()
    story.tell(started("t0"), ending(1, grace=3600.0))
    said = [at for at in range(3700) if story.tick(START + at)]
    assert len(said) == 11
    assert said[0] == 300


def test_cleanup_that_is_over_says_nothing_more():
    story = Story()
    story.tell(ending(2), left(0))
    assert story.tick(START + 10) == []


def test_when_the_grace_is_over_nothing_is_counted():
    story = Story()
    story.tell(started("t0"), ending(1, grace=7.0))
    assert len(story.tick(START + 6)) == 1
    assert story.tick(START + 20) == []


def test_the_live_display_counts_down_itself():
    story = Story(brief=True)
    story.tell(started("t0"), ending(1))
    assert story.tick(START + 10) == []
