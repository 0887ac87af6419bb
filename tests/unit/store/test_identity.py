import os
import subprocess
import sys
from pathlib import Path

import attrs

from agentcompass.store.identity import is_alive, this_process
from agentcompass.store.lock import is_held


def test_this_process_is_alive():
    assert this_process().pid == os.getpid()
    assert is_alive(this_process())


def test_another_process_with_the_same_pid_is_somebody_else():
    assert not is_alive(attrs.evolve(this_process(), started=this_process().started + 1))


def test_nobody_survives_a_reboot():
    assert not is_alive(attrs.evolve(this_process(), boot_id="another boot"))


def test_senseless_pids_are_nobody():
    for pid in (0, -1, 2**22 + 1):
        assert not is_alive(attrs.evolve(this_process(), pid=pid))


def identity_of_child(child):
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    started = int(stat.rpartition(")")[2].split()[19])
    return attrs.evolve(this_process(), pid=child.pid, started=started)


def test_a_child_is_alive_until_it_ends_even_while_nobody_waits_for_it():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = identity_of_child(child)
        assert is_alive(identity)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, but still a zombie
        assert not is_alive(identity)
    assert not is_alive(identity)


def test_a_name_with_parentheses_and_spaces_does_not_confuse(tmp_path):
    program = tmp_path / "odd) R 1 (name"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "30"]) as child:
        identity = identity_of_child(child)
        assert is_alive(identity)
        child.kill()


def test_a_lock_file_that_is_not_there_is_not_held(tmp_path):
    assert not is_held(tmp_path / "lock")
