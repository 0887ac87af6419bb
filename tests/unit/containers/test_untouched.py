"""A process that waits and was written into is told from one that was left alone."""

import signal
import subprocess

import pytest

from agentcompass.containers.untouched import is_untouched, settled

SECONDS = 5.0
SHORTLY = 0.05


@pytest.fixture
def start():
    started = []

    def begin(*argv):
        started.append(subprocess.Popen(argv, start_new_session=True))
        return started[-1].pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def sleeper(start):
    pid = start("sleep", "1000")
    waiting = settled(pid, SECONDS)
    assert waiting is not None
    return pid, waiting


def write(pid, at, data):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        memory.write(data)


def test_one_that_was_left_alone_is_untouched(sleeper):
    pid, before = sleeper
    assert is_untouched(pid, before, SECONDS)


def test_one_whose_code_was_changed_is_not(sleeper):
    pid, before = sleeper
    counter = int(before.call[-1], 16)
    write(pid, counter, b"\xcc")
    assert not is_untouched(pid, before, SHORTLY)


def test_one_whose_way_back_leads_elsewhere_is_not(sleeper):
    """Without a byte of code of its own: what it has already is enough, called in another order."""
    pid, before = sleeper
    stack = int(before.call[1], 16)
    back = min(at for at in before.ways if at >= stack)
    other = next(to for to in before.ways.values() if to != before.ways[back])
    write(pid, back, other.to_bytes(8, "little"))
    assert not is_untouched(pid, before, SHORTLY)
    write(pid, back, before.ways[back].to_bytes(8, "little"))
    assert is_untouched(pid, before, SECONDS)


def test_another_process_is_another(sleeper, start):
    _, before = sleeper
    assert not is_untouched(start("sleep", "1000"), before, SHORTLY)


def test_one_that_has_ended_is_nothing(sleeper):
    pid, before = sleeper
    subprocess.run(["kill", "-KILL", str(pid)], check=True)
    assert not is_untouched(pid, before, SHORTLY)


def test_one_that_works_does_not_settle(start):
    assert settled(start("sh", "-c", "while :; do :; done"), SHORTLY) is None


def test_one_that_handles_another_signal_is_not_the_same(start):
    script = "import signal; signal.signal(signal.SIGUSR1, lambda *_: signal.signal(signal.SIGUSR2, print)); signal.pause(); signal.pause()"
    pid = start("python3", "-c", script)
    before = settled(pid, SECONDS)
    subprocess.run(["kill", f"-{signal.SIGUSR1}", str(pid)], check=True)
    assert not is_untouched(pid, before, SHORTLY)
