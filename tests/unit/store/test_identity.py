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
    for pid in (0, -1, 2**22 + 1, 2**40):
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


WITHOUT_PROC = """
import os, sys
import attrs
from agentcompass.records import ProcessIdentity
from agentcompass.store.identity import is_alive, this_process

assert not os.path.exists("/proc/self/stat")
boot, pid = sys.argv[1], int(sys.argv[2])
print(is_alive(ProcessIdentity(boot_id=boot, pid=pid, started=1)))
print(is_alive(this_process()))
print(is_alive(ProcessIdentity(boot_id=boot, pid=2**22 + 1, started=1)))
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 0)
print(is_alive(ProcessIdentity(boot_id=boot, pid=1, started=1)))
if os.getresuid()[2] == 0:
    os.setresuid(0, 0, 0)
"""


def test_where_the_system_hides_processes_those_that_exist_count_as_alive():
    mine = this_process()
    command = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/proc", "--", sys.executable]
    command += ["-c", WITHOUT_PROC, mine.boot_id, str(mine.pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["True", "True", "False", "True"], done.stderr


def test_a_lock_file_that_is_not_there_is_not_held(tmp_path):
    assert not is_held(tmp_path / "lock")
