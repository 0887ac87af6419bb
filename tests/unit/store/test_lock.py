import errno
import fcntl
import os
import subprocess
import sys

import pytest

from agentcompass.errors import StoreError
from agentcompass.store.lock import RunLock, is_held
from support.descriptors import open_files

HOLDER = """
import sys
from pathlib import Path
from agentcompass.store.lock import RunLock

lock = RunLock(Path(sys.argv[1]))
print(flush=True)
input()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lock"


def test_a_lock_is_held_until_it_is_released_and_its_file_stays(path):
    lock = RunLock(path)
    assert is_held(path)
    with pytest.raises(StoreError, match="is being written by process"):
        RunLock(path)
    lock.release()
    lock.release()
    assert not is_held(path)
    assert path.exists()
    RunLock(path).release()


def test_the_file_names_its_holder_and_nobody_else(path):
    path.write_text("4194304 of an earlier holder\n")
    lock = RunLock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_asking_whether_a_lock_is_held_does_not_take_it(path):
    RunLock(path).release()
    assert not is_held(path)
    lock = RunLock(path)
    assert is_held(path)
    lock.release()


def test_the_system_releases_the_lock_of_a_process_that_is_killed(path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"\n"
        with pytest.raises(StoreError, match=f"written by process {holder.pid}"):
            RunLock(path)
        holder.kill()
        holder.wait()
        RunLock(path).release()


def test_a_holder_that_wrote_no_pid_is_still_refused_to(path):
    lock = RunLock(path)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="process of unknown pid"):
        RunLock(path)
    lock.release()


def test_a_lock_file_that_cannot_be_opened_is_an_error_that_names_it(path):
    path.mkdir()
    with pytest.raises(StoreError, match=f"cannot open the lock {path}: Is a directory"):
        RunLock(path)


def refusing(number):
    def flock(_descriptor, _operation):
        raise OSError(number, "no")

    return flock


def test_a_file_system_without_locks_keeps_nobody_from_running(path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))
    lock = RunLock(path)
    assert not is_held(path)
    lock.release()


def test_a_lock_that_fails_otherwise_is_an_error_and_costs_no_descriptor(path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", refusing(errno.EIO))
    before = open_files()
    with pytest.raises(StoreError, match=f"cannot lock {path}: no"):
        RunLock(path)
    assert open_files() <= before
