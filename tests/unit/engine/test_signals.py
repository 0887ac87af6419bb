"""Ctrl-C once, twice, three times; SIGTERM."""

import itertools
import signal
import threading

import pytest
import trio

from agentcompass.engine.control import Control
from agentcompass.engine.signals import ending_signals, escalation, free_signals, watch_signals
from support.scripts import run_script

BOTH = {signal.SIGINT, signal.SIGTERM}


@pytest.fixture(autouse=True)
def former_handlers():
    """Python's own handlers, whatever trio's test runner has put there."""
    former = {number: signal.getsignal(number) for number in (*BOTH, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def test_the_steps_are_soft_hard_leave_and_leave_again():
    assert [escalation(n) for n in range(1, 5)] == ["soft", "hard", "leave", "leave"]


async def _run(control, *signals_at, cleanup_seconds=3.0, **options):
    """Raise signals in this process while a run works; return what its cleanup came to and when it ended."""
    left = []
    options.setdefault("leave", left.append)
    options.setdefault("clock", itertools.count().__next__)
    begin = trio.current_time()

    async def main():
        with control.soft:
            await trio.sleep(1000)
        with control.budget.shielded() as scope:
            await trio.sleep(cleanup_seconds)
        return "cut" if scope.cancelled_caught else "cleaned"

    async def raise_at(seconds, number):
        await trio.sleep(seconds)
        signal.raise_signal(number)

    with watch_signals(control, BOTH, **options):
        async with trio.open_nursery() as nursery:
            for seconds, number in signals_at:
                nursery.start_soon(raise_at, seconds, number)
            word = await control.run(main)
            nursery.cancel_scope.cancel()
    return word, trio.current_time() - begin, left


async def test_one_interrupt_is_soft(autojump_clock):
    control = Control(10)
    word, seconds, left = await _run(control, (5, signal.SIGINT))
    assert (word, control.reason, left) == ("cleaned", "sigint", [])
    assert seconds == pytest.approx(8)


async def test_a_second_interrupt_ends_cleanup_at_once(autojump_clock):
    word, seconds, left = await _run(
        Control(100), (5, signal.SIGINT), (6, signal.SIGINT), cleanup_seconds=50
    )
    assert (word, left) == ("cut", [])
    assert seconds == pytest.approx(6)


async def test_sigterm_counts_in_the_same_escalation_and_names_itself(autojump_clock):
    control = Control(100)
    word, seconds, _ = await _run(
        control, (5, signal.SIGTERM), (6, signal.SIGINT), cleanup_seconds=50
    )
    assert (word, control.reason) == ("cut", "sigterm")
    assert seconds == pytest.approx(6)


@pytest.mark.parametrize(
    ("first", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["sigint", "sigterm"]
)
async def test_the_third_sweeps_and_leaves_with_the_code_of_the_first(autojump_clock, first, code):
    control = Control(100)
    steps = []
    control.sweep = lambda: steps.append("swept")
    await _run(
        control,
        *[(second, first) for second in (5, 5, 5)],
        leave=steps.append,
        cleanup_seconds=50,
    )
    assert steps == ["swept", code]


async def test_a_sweep_that_fails_does_not_keep_the_process(autojump_clock):
    control = Control(100)

    def fail():
        raise OSError("no docker")

    control.sweep = fail
    left = []
    with watch_signals(control, BOTH, leave=left.append, clock=itertools.count().__next__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(OSError, match="no docker"):
            signal.raise_signal(signal.SIGINT)
    assert left == [130]


async def test_a_burst_of_signals_is_one(autojump_clock):
    word, seconds, left = await _run(
        Control(100), *[(5, signal.SIGTERM)] * 4, cleanup_seconds=50, clock=lambda: 7.0
    )
    assert (word, left) == ("cleaned", [])
    assert seconds == pytest.approx(55)


async def test_where_the_process_is_not_ours_a_third_changes_nothing(autojump_clock):
    word, _, left = await _run(
        Control(100), *[(5, signal.SIGINT)] * 4, cleanup_seconds=50, may_leave=False
    )
    assert (word, left) == ("cut", [])


def test_afterwards_the_former_handlers_are_back():
    def mine(number, frame):
        """Anything."""

    signal.signal(signal.SIGTERM, mine)
    with watch_signals(Control(1), BOTH):
        assert signal.getsignal(signal.SIGTERM) is not mine
    assert signal.getsignal(signal.SIGTERM) is mine
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_afterwards_a_program_that_is_about_to_exit_is_deaf_to_interrupts_only():
    with watch_signals(Control(1), BOTH, deaf_afterwards=True):
        pass
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_off_the_main_thread_nothing_is_touched():
    seen = []

    def look():
        with watch_signals(Control(1), BOTH):
            seen.append(signal.getsignal(signal.SIGINT))
        seen.append(free_signals())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler, frozenset()]


def test_a_library_takes_the_signals_that_do_what_python_makes_them_do():
    assert free_signals() == {*BOTH, signal.SIGHUP}


def test_a_library_leaves_a_termination_handler_of_the_application_alone():
    signal.signal(signal.SIGTERM, lambda *_: None)
    assert free_signals() == {signal.SIGINT, signal.SIGHUP}


def test_a_library_takes_nothing_where_the_application_handles_interrupts():
    signal.signal(signal.SIGINT, lambda *_: None)
    assert free_signals() == frozenset()


PROGRAM = """
import signal, time, trio
from agentcompass.engine.control import Control
from agentcompass.engine.signals import watch_signals

control = Control(20)
control.sweep = lambda: print("swept", flush=True)

async def main():
    print("ready", flush=True)
    with control.soft:
        {work}
    with control.budget.shielded() as scope:
        {cleanup}
    print("cut" if scope.cancelled_caught else "cleaned", flush=True)

async def run():
    with watch_signals(control, {{signal.SIGINT, signal.SIGTERM}}, deaf_afterwards=True):
        await control.run(main)

trio.run(run)
print("over", flush=True)
time.sleep(1)
raise SystemExit(130)
"""


def test_in_a_process_one_interrupt_cleans_up():
    program = PROGRAM.format(work="await trio.sleep(60)", cleanup="await trio.sleep(0.2)")
    ended = run_script(program, interrupts=1)
    assert (ended.returncode, ended.lines) == (130, ["ready", "cleaned", "over"])


def test_in_a_process_three_interrupts_within_milliseconds_never_kill_it_by_signal():
    program = PROGRAM.format(work="await trio.sleep(60)", cleanup="await trio.sleep(0.2)")
    ended = run_script(program, interrupts=3, pause=0.002)
    assert ended.returncode == 130
    assert ended.seconds < 10


def test_in_a_process_interrupts_after_the_end_are_ignored():
    program = PROGRAM.format(work="await trio.sleep(60)", cleanup="await trio.sleep(0)")
    ended = run_script(program, interrupts=3, pause=0.3)
    assert (ended.returncode, ended.lines) == (130, ["ready", "cleaned", "over"])


def test_in_a_process_the_third_interrupt_leaves_though_the_event_loop_is_stuck():
    program = PROGRAM.format(
        work="[time.sleep(0.1) for _ in range(600)]", cleanup="await trio.sleep(60)"
    )
    ended = run_script(program, interrupts=3, pause=0.2)
    assert (ended.returncode, ended.lines) == (130, ["ready", "swept"])
    assert ended.seconds < 10


def test_a_process_of_ours_is_ended_by_three_signals_and_under_nohup_by_two():
    assert ending_signals() == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert ending_signals() == {signal.SIGINT, signal.SIGTERM}
