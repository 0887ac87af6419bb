"""Evaluations in containers of a real engine: they score as they should, and nothing is ever left."""

import json
import random
import re
import shlex
import signal
import subprocess
import time

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.containers import life
from agentcompass.containers.client import connect
from support.docker import engine_host, make_container, python_image
from support.docker_humaneval import humaneval, solving_model
from support.docker_runs import BUSY, DockerRuns
from support.docker_sandboxes import DEAD, docker_env, docker_lease

pytestmark = pytest.mark.docker

AT_ONCE = 8


def until(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_humaneval_is_solved_by_its_own_solutions(tmp_path):
    result, records = humaneval(tmp_path, "oracle", "none", count=32, at_once=32)
    assert result["summary"]["score"] == 1.0
    assert len(records) == 32
    for record in records:
        used = record["sandbox"]["evaluation"]
        assert used["memory_peak_bytes"] > 0
        assert used["cpu_seconds"] > 0
        assert used["oom_kills"] == 0


def test_humaneval_is_solved_by_a_model_with_a_shell(tmp_path):
    with solving_model(tmp_path) as options:
        result, records = humaneval(tmp_path, "tool_loop", *options, count=8, at_once=8)
    assert result["summary"]["score"] == 1.0
    assert all(set(record["sandbox"]) == {"agent", "evaluation"} for record in records)


def test_a_kill_for_want_of_memory_is_named_in_the_record(tmp_path):
    hungry = "python3 -c 'x = bytearray(300_000_000)'"
    runs = DockerRuns(tmp_path, command=hungry, count=1, env_params={"memory_mb": 48})
    assert runs.program(*runs.arguments()).returncode == 0
    (record,) = runs.records()
    assert record["verdict"] == "graded"
    assert record["metrics"] == {"correct": 0.0}
    (used,) = record["sandbox"].values()
    assert used["oom_kills"] == 1


def test_a_sandbox_that_its_own_programs_have_ended_is_not_tried_again(tmp_path):
    runs = DockerRuns(tmp_path, command="kill -9 -1; sleep 100", count=1)
    assert runs.run().returncode == 1
    (record,) = runs.records()
    assert (record["verdict"], record["failure"]["code"]) == ("infra", "ended-from-inside")


def test_a_sandbox_that_has_written_too_much_is_not_tried_again(tmp_path):
    much = "head -c 20M /dev/zero > /much; sleep 100"
    runs = DockerRuns(tmp_path, command=much, count=1, env_params={"storage_mb": 5})
    done = runs.run()
    assert done.returncode == 1
    (record,) = runs.records()
    assert (record["verdict"], record["failure"]["code"]) == ("infra", "storage-exceeded")
    assert "closing sandbox" not in done.stderr


def test_a_container_that_somebody_else_kills_under_an_evaluation_is_no_zero(tmp_path):
    (tmp_path / "marks").mkdir()
    # The first of its executions waits, and the second, in a new container, passes.
    wait = "[ -e /marks/begun ] || { touch /marks/begun; sleep 100 || exit 1; }"
    runs = DockerRuns(
        tmp_path,
        command=wait,
        count=1,
        env_params={"mounts": [f"{tmp_path}/marks:/marks"]},
        options=("--execution-params", json.dumps({"retry_min_delay_seconds": 0.1})),
    )
    child = runs.start()
    until((tmp_path / "marks" / "begun").exists)

    (name,) = runs.containers()

    async def kill():
        async with connect(engine_host()) as docker:
            await life.kill(docker, name)

    trio.run(kill)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 0, said
    first, second = runs.records()
    assert (first["verdict"], first["failure"]["code"]) == ("infra", "container-died")
    assert (second["verdict"], second["metrics"]) == ("graded", {"correct": 1.0})


def test_ctrl_c_ends_containers_with_busy_commands_and_daemons(tmp_path):
    runs = DockerRuns(tmp_path, command=BUSY, at_once=AT_ONCE, count=2 * AT_ONCE)
    child = runs.start("--cleanup-grace-seconds", "60")
    runs.await_containers(AT_ONCE)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert runs.containers() == []
    assert runs.leases() == []


@pytest.fixture(scope="module")
def foreign():
    """Containers that are not of the run: somebody's own, and one of another results root."""
    env = docker_env()

    async def make():
        async with connect(engine_host()) as docker:
            other = await make_container(docker, python_image())
        lease = docker_lease(env, owner=DEAD, keep=True)
        async with env.open(SandboxPlan(), lease):
            return other, lease

    async def remove(other, lease):
        async with connect(engine_host()) as docker:
            assert (await life.running(docker, other)).is_running
            assert (await life.running(docker, lease.name)).is_running
            await life.remove(docker, other)
            await life.remove(docker, lease.name)

    made = trio.run(make)
    yield
    trio.run(remove, *made)


@pytest.mark.parametrize("moment", [round(random.Random(n).uniform(0.6, 4.0), 2) for n in range(6)])
def test_what_a_killed_run_left_is_gone_with_the_next_start(tmp_path, moment, foreign):
    runs = DockerRuns(tmp_path, command="sleep 0.3", count=24)
    child = runs.start()
    time.sleep(moment)
    child.kill()
    child.communicate(timeout=30)
    left = runs.run_ids()
    one = DockerRuns(tmp_path, count=1)
    done = one.program(*one.arguments())
    assert done.returncode == 0, done.stderr
    assert set(runs.run_ids()) > set(left)
    assert runs.containers() == []
    assert runs.leases() == []
    assert runs.resources() == []


def test_what_a_killed_run_left_is_listed_and_closed(tmp_path):
    runs = DockerRuns(tmp_path, command="sleep 1000", count=2, at_once=2)
    child = runs.start()
    runs.await_containers(2)
    child.kill()
    child.communicate(timeout=30)
    listed = json.loads(runs.program("env", "list", "results", "--format", "json").stdout)
    assert {one["state"] for one in listed} == {"left"}
    assert {one["name"] for one in listed} == set(runs.containers())
    # Not even the engine's address is in the environment: it is in the lease.
    closed = runs.program("env", "close", "results", DOCKER_HOST="unix:///nowhere")
    assert closed.stdout == "2 removed, 0 failed\n", closed.stderr
    assert runs.containers() == []


def test_a_kept_sandbox_tells_the_command_that_enters_it(tmp_path):
    runs = DockerRuns(tmp_path, command="echo mine > /mine", count=1)
    done = runs.program(*runs.arguments("--keep-environment"))
    assert done.returncode == 0, done.stderr
    (line,) = set(re.findall(r"docker .*exec -it .* sh\b", done.stderr))
    entered = subprocess.run(
        shlex.split(line.replace(" -it ", " -i ")),
        input=b"cat /mine",
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert entered.stdout == b"mine\n"
    assert runs.program("env", "close", "results").stdout == "1 removed, 0 failed\n"
    assert runs.containers() == []


def test_an_image_that_cannot_be_had_stops_it_before_anything_is_made(tmp_path):
    runs = DockerRuns(tmp_path, image="agentcompass.invalid/no/such:image")
    for options in ((), ("--dry-run",)):
        done = runs.program(*runs.arguments(*options))
        assert done.returncode == 3
        assert "agentcompass.invalid/no/such:image" in done.stderr
    assert runs.run_ids() == []


def test_an_image_that_must_be_built_is_told_and_built_once(tmp_path):
    (tmp_path / "here").mkdir()
    label = f"LABEL agentcompass-test={tmp_path}"
    (tmp_path / "here" / "Dockerfile").write_text(f"FROM {python_image()}\n{label}\n")
    runs = DockerRuns(
        tmp_path, count=4, env_params={"build": str(tmp_path / "here"), "image": None}
    )
    done = runs.program(*runs.arguments())
    assert done.returncode == 0, done.stderr
    assert "1 of 1 image must be pulled or built first" in done.stderr
    assert done.stderr.count("building the image") == 1
    dry = runs.program(*runs.arguments("--dry-run"))
    assert dry.returncode == 0, dry.stderr
    assert "1, 0 missing" in dry.stdout
