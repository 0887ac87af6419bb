"""Finding the processes of a sandbox by their mark, when nobody can answer for them."""

import fcntl
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from agentcompass.components.environments import leftovers
from agentcompass.errors import SandboxError


def no_check():
    pass


@pytest.fixture
def lease_id():
    return f"lease-{random.randrange(10**9)}"


@pytest.fixture
def marked(lease_id):
    env = {**os.environ, leftovers.MARK: lease_id}
    with subprocess.Popen(["sleep", "600"], env=env) as child:
        yield child
        child.kill()


def test_what_carries_the_mark_is_found_and_ended(marked, lease_id):
    assert leftovers.find(lease_id) == {marked.pid}
    assert leftovers.find(f"{lease_id}1") == leftovers.find(lease_id[:-1]) == set()
    threading.Thread(target=marked.wait).start()  # its parent, which may take its time
    assert leftovers.end(lease_id, no_check) == 1
    assert leftovers.find(lease_id) == set()


CHILD = """
import os, subprocess
from agentcompass.components.environments import leftovers

with subprocess.Popen(["sleep", "600"]) as child:
    found = leftovers.find(os.environ[leftovers.MARK])
    child.kill()
assert found == {child.pid}, found
"""


def test_this_process_is_never_among_them(lease_id):
    env = {**os.environ, leftovers.MARK: lease_id}
    subprocess.run([sys.executable, "-c", CHILD], env=env, check=True, timeout=60)


def test_what_cannot_be_killed_in_time_is_told_by_its_pid(marked, lease_id, monkeypatch):
    monkeypatch.setattr(leftovers, "END_SECONDS", -1.0)
    with pytest.raises(SandboxError, match=f"{marked.pid}.* could not be killed") as caught:
        leftovers.end(lease_id, no_check)
    assert caught.value.code == "processes-left"


def test_who_asks_to_stop_is_heard(marked, lease_id):
    def stop():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        leftovers.end(lease_id, stop)


@pytest.fixture
def held(tmp_path):
    """A workspace on which a guard holds its lock."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    yield fd
    os.close(fd)


def test_guards_are_awaited_until_they_let_go(tmp_path, held):
    asked = []

    def check():
        asked.append(1)
        if len(asked) == 3:
            fcntl.flock(held, fcntl.LOCK_UN)

    leftovers.await_guards(tmp_path, check)
    assert len(asked) == 3


def test_guards_that_never_let_go_are_awaited_for_so_long(tmp_path, held, monkeypatch):
    monkeypatch.setattr(leftovers, "END_SECONDS", 0.2)
    begin = time.monotonic()
    leftovers.await_guards(tmp_path, no_check)
    assert time.monotonic() - begin >= 0.2


def test_where_there_is_nothing_or_nothing_can_be_locked_nobody_is_awaited(tmp_path, monkeypatch):
    asked = []

    def no_locks(_fd, _operation):
        asked.append(1)
        raise OSError(95, "Operation not supported")

    def never():
        raise AssertionError

    leftovers.await_guards(tmp_path / "none", never)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    leftovers.await_guards(tmp_path, never)
    assert len(asked) == 1
