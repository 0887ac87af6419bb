"""The long form of test_docker_runs.py: a hundred kills, fifty busy containers, all of HumanEval. Run by `just campaign`."""

import os
import random
import signal
import time
from contextlib import nullcontext

import pytest

from support.docker_humaneval import humaneval, solving_model
from support.docker_runs import BUSY, DockerRuns

pytestmark = pytest.mark.docker

KILLS = int(os.environ.get("CAMPAIGN_COUNT", "100"))
CONTAINERS = 50
GRACE_SECONDS = 120
SCRIPTS = (
    "true",
    "sleep 0.3",
    "(setsid sleep 1000 >/dev/null 2>&1 &) ; head -c 20M /dev/zero | wc -c",
)


@pytest.mark.timeout(14400)
def test_kills(tmp_path, capsys):
    chance = random.Random("docker kills")
    found = 0
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs = DockerRuns(folder, command=chance.choice(SCRIPTS), count=40, at_once=6)
        child = runs.start()
        time.sleep(chance.uniform(0.5, 5.0))
        child.kill()
        child.communicate(timeout=60)
        found += len(runs.leases())
        one = runs.program(*DockerRuns(folder, count=1).arguments())
        assert one.returncode == 0, one.stderr
        assert runs.containers() == []
        assert runs.leases() == []
        assert runs.resources() == []
    with capsys.disabled():
        print(f"\nkill -9: {KILLS} runs, {found} containers that may have been there, none left")


@pytest.mark.timeout(1800)
def test_ctrl_c_with_fifty_busy_containers(tmp_path, capsys):
    runs = DockerRuns(tmp_path, command=BUSY, count=CONTAINERS, at_once=CONTAINERS)
    child = runs.start("--cleanup-grace-seconds", str(GRACE_SECONDS))
    runs.await_containers(CONTAINERS, seconds=600)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=GRACE_SECONDS + 60)
    seconds = time.monotonic() - began
    assert child.returncode == 130, said
    assert runs.containers() == []
    assert runs.leases() == []
    with capsys.disabled():
        print(f"\nCtrl-C with {CONTAINERS} busy containers: clean after {seconds:.1f} s")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("harness", ["oracle", "tool_loop"])
def test_humaneval_thirty_two_at_once(tmp_path, capsys, harness):
    began = time.monotonic()
    with solving_model(tmp_path) if harness == "tool_loop" else nullcontext(["none"]) as model:
        result, records = humaneval(tmp_path, harness, *model, count=None, at_once=32)
    assert len(records) == 164
    assert result["summary"]["score"] == 1.0
    with capsys.disabled():
        print(f"\nHumanEval, 164 tasks, {harness}, 32 at once: {time.monotonic() - began:.0f} s")
