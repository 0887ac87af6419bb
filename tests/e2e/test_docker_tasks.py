"""Tasks that bring their own images and services, run by the whole program on a real engine."""

import contextlib
import json
import random
import signal
import time

import pytest
import trio

from agentcompass.containers.errors import DockerError
from support.boxed import BOXED, boxed_runs
from support.docker import LABEL, engine_host, new_name, python_image
from support.docker_sandboxes import remove_images
from support.registry import Registry

pytestmark = pytest.mark.docker

ASK = "python3 -c \"import urllib.request as r; r.urlopen('http://web:8000/', timeout=9)\""
UNREACHABLE = "127.0.0.1:1/no/registry:1"


@pytest.fixture
def services(tmp_path):
    """A Compose file with a server that is slow to come, and a volume."""
    serve = "[sh, -c, 'sleep 1; cd /site; exec python3 -m http.server 8000']"
    test = "import urllib.request as r; r.urlopen('http://localhost:8000')"
    health = {"test": ["CMD", "python3", "-c", test], "interval": "300ms", "retries": 30}
    (tmp_path / "docker-compose.yaml").write_text(
        "services:\n"
        "  main: {depends_on: {web: {condition: service_healthy}}}\n"
        f"  web: {{image: '${{MAIN_IMAGE_NAME}}', command: {serve}, healthcheck: {json.dumps(health)}, "
        "volumes: ['site:/site']}\n"
        "volumes: {site: }\n"
    )
    return {"image": python_image(), "compose": "docker-compose.yaml"}


@pytest.fixture
def context(tmp_path):
    """A directory to build from, which takes two seconds; its images are removed afterwards."""
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(
        f"FROM {python_image()}\nLABEL {LABEL}={tmp_path}\nRUN sleep 2; echo {new_name()} > /built\n"
    )
    yield folder

    async def remove_all():
        with trio.fail_after(60):
            while True:  # a step that is being ended uses one for a moment
                with contextlib.suppress(DockerError):
                    return await remove_images(tmp_path)
                await trio.sleep(0.1)

    trio.run(remove_all)


def test_tasks_find_their_services_and_are_scored(tmp_path, services):
    runs = boxed_runs(tmp_path, services, command=ASK, count=3, at_once=3)
    done = runs.run()
    assert done.returncode == 0, done.stderr
    assert [record["metrics"] for record in runs.records()] == [{"correct": 1.0}] * 3
    assert (runs.containers(), runs.resources(), runs.leases()) == ([], [], [])


def test_attempts_wait_for_one_build_and_it_is_not_their_time(tmp_path, context):
    plan = {"image": UNREACHABLE, "build": "context"}
    runs = boxed_runs(tmp_path, plan, command="test -s /built", count=8, at_once=8)
    done = runs.run("--execution-params", '{"open_timeout_seconds": 60}')
    assert done.returncode == 0, done.stderr
    assert "1 of 1 image must be pulled or built first" in done.stderr
    assert done.stderr.count("building the image of") == 1
    assert done.stderr.count("is built instead") == 1
    assert all(record["metrics"] == {"correct": 1.0} for record in runs.records())
    assert max(record["phase_seconds"]["wait"] for record in runs.records()) >= 2


def test_a_file_that_cannot_be_used_is_told_beforehand_and_fails_its_own_task(tmp_path, services):
    (tmp_path / "bad.yaml").write_text("services: {s: {image: x, privileged: true}}")
    bad = {"image": python_image(), "compose": "bad.yaml"}
    runs = boxed_runs(tmp_path, bad, services, command="true", count=2)
    done = runs.run()
    assert done.returncode == 1
    assert "1 task cannot have a sandbox and will fail: task-0: " in done.stderr
    records = {record["task_id"]: record for record in runs.records()}
    assert records["task-0"]["failure"]["code"] == "bad-compose"
    assert "bad.yaml:1:38: services.s.privileged" in records["task-0"]["failure"]["message"]
    assert records["task-1"]["verdict"] == "graded"
    dry = runs.run("--dry-run")
    assert dry.returncode == 1
    assert "bad.yaml:1:38: services.s.privileged" in dry.stderr


def test_ctrl_c_ends_services_too(tmp_path, services):
    runs = boxed_runs(tmp_path, services, command="sleep 1000", count=3, at_once=3)
    child = runs.start("--cleanup-grace-seconds", "60")
    runs.await_containers(6)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=90)
    assert child.returncode == 130, said
    assert (runs.containers(), runs.resources(), runs.leases()) == ([], [], [])


@pytest.mark.parametrize("moment", [round(random.Random(n).uniform(0.7, 4.0), 2) for n in range(4)])
def test_what_a_killed_run_left_is_gone_with_the_next_start(tmp_path, services, moment):
    runs = boxed_runs(tmp_path, services, command="sleep 0.3", count=12, at_once=3)
    child = runs.start()
    time.sleep(moment)
    child.kill()
    child.communicate(timeout=30)
    left = runs.run_ids()
    one = boxed_runs(tmp_path, {"image": python_image()}, command="true", count=1)
    done = one.run()
    assert done.returncode == 0, done.stderr
    assert set(runs.run_ids()) > set(left)
    assert (runs.containers(), runs.resources(), runs.leases()) == ([], [], [])


# --- fetched ahead


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.close()


def prefetch(runs, *options, **environ):
    return runs.program(*prefetch_arguments(*options), **runs.environ, **environ)


def prefetch_arguments(*options):
    return (
        "prefetch", BOXED, "--benchmark-params", '{"path": "tasks.jsonl"}', "--env", "docker",
        "--env-params", json.dumps({"host": engine_host(), "image": python_image()}), *options,
    )  # fmt: skip


def test_images_are_fetched_ahead_and_then_nothing_is_left_to_do(tmp_path, context, registry):
    registry.log_in(tmp_path)
    login = {"DOCKER_CONFIG": str(tmp_path)}
    with registry.pushed(engine_host()) as first, registry.pushed(engine_host()) as second:
        plans = ({"image": first}, {"image": second, "build": "context"}, {"build": "context"}, {})
        runs = boxed_runs(tmp_path, *plans, count=4)
        done = prefetch(runs, **login)
        assert done.returncode == 0, done.stderr
        tasks, images, size = done.stdout.splitlines()
        assert tasks == "tasks   4"
        assert images == "images  4: 3 brought, 1 were there"
        assert size.startswith("size    ")
        assert "3 images of 4 to pull or build" in done.stderr
        assert f"pulling the image {first}" in done.stderr
        assert "0 left" in done.stderr
        again = prefetch(runs, "--format", "json", **login)
        assert again.stderr == ""
        found = json.loads(again.stdout)
        assert {image["status"] for image in found["images"]} == {"there"}
        assert found["size_bytes"] == sum(image["size_bytes"] for image in found["images"])


def test_images_that_cannot_be_had_are_named_and_the_others_fetched(tmp_path, context):
    (tmp_path / "bad.yaml").write_text("services: {s: {image: x, privileged: true}}")
    plans = (
        {"image": UNREACHABLE},
        {"build": "context"},
        {"build": "none"},
        {"compose": "bad.yaml"},
    )
    runs = boxed_runs(tmp_path, *plans, count=4)
    done = prefetch(runs, "--progress", "none")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1] == "images  3: 1 brought, 2 failed"
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    names = (UNREACHABLE, f"{tmp_path}/none/Dockerfile", "task-3")
    assert [sum(line.count(name) for line in errors) for name in names] == [1, 1, 1]
    assert len(errors) == 3
    assert "bad.yaml:1:38: services.s.privileged" in done.stderr


@pytest.mark.signals
def test_ctrl_c_ends_what_is_being_fetched(tmp_path, context):
    (context / "Dockerfile").write_text(
        f"FROM {python_image()}\nLABEL {LABEL}={tmp_path}\nRUN echo begun; sleep 1000\n"
    )
    runs = boxed_runs(tmp_path, {"build": "context"}, {}, count=2)
    child = runs.program.start(*prefetch_arguments(), environ=runs.environ)
    for line in child.stderr:
        if "building the image" in line:
            break
    child.send_signal(signal.SIGINT)
    said, more = child.communicate(timeout=60)
    assert child.returncode == 130, more
    assert said.splitlines()[1] == "images  2: 1 were there, 1 missing"
    assert "ended by Ctrl-C: the same command goes on with what is missing" in more


def test_a_build_that_fails_shows_what_it_said_and_nothing_that_is_no_text(tmp_path, context):
    steps = r"echo begun; head -c 3000 /bin/sh; printf '\n10%%\r100%%\n'; exit 3"
    (context / "Dockerfile").write_text(f"FROM {python_image()}\nRUN {steps}\n")
    runs = boxed_runs(tmp_path, {"build": "context"})
    done = prefetch(runs, "--progress", "none")
    assert done.returncode == 1
    assert done.stderr.count(f"{context}/Dockerfile") == 1
    assert "returned a non-zero code: 3" in done.stderr
    assert "\nbegun\n" in done.stderr
    assert "\n(what is no text)\n" in done.stderr
    assert "\n100%\n" in done.stderr
    assert "\ufffd" not in done.stderr
    assert "ELF" not in done.stderr


def test_the_program_of_a_harness_is_fetched_too_and_one_that_cannot_be_had_holds_up_nothing(
    tmp_path,
):
    runs = boxed_runs(tmp_path, {})
    needs = ("--harness", "support.boxed:Fetching", "--progress", "none")
    done = prefetch(runs, *needs, "--harness-params", '{"succeeds": true}')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "program fetching: is there"
    done = prefetch(runs, *needs, "--harness-params", '{"succeeds": false}', "--format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["program"]["status"], found["images"][0]["status"]) == ("failed", "there")
    assert done.stderr == "error: fetching: it is published nowhere\n"


def test_an_engine_that_is_not_there_is_told(tmp_path):
    runs = boxed_runs(tmp_path, {}, count=1)
    *words, _params = prefetch_arguments()
    params = json.dumps({"host": f"unix://{tmp_path}/none.sock", "image": "x"})
    done = runs.program(*words, params, **runs.environ)
    assert done.returncode == 3
    assert "no Docker engine can be reached" in done.stderr


def test_where_sandboxes_have_no_images_the_data_is_all(tmp_path):
    runs = boxed_runs(tmp_path, {}, count=3)
    params = ("--benchmark-params", '{"path": "tasks.jsonl"}')
    done = runs.program("prefetch", BOXED, *params, **runs.environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tasks   3\n", "")
    done = runs.program("prefetch", BOXED, "--benchmark-params", "{}", **runs.environ)
    assert done.returncode == 2
    done = runs.program("prefetch", BOXED, *params, "--at-once", "0", **runs.environ)
    assert (done.returncode, "--at-once 0" in done.stderr) == (2, True)
