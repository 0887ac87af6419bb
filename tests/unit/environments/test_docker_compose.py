"""Services beside a sandbox, on a real engine: their order, what they share, and that nothing of them stays."""

import textwrap

import attrs
import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker.compose import start
from agentcompass.components.environments.docker.config import LEASE_LABEL, labels_of
from agentcompass.components.environments.docker.environment import DockerEnvironment
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.containers import life, resources
from agentcompass.containers.client import connect
from agentcompass.errors import SandboxError
from support.docker import engine_host, new_name, python_image
from support.docker_sandboxes import DEAD, docker_env, docker_lease, state_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

SERVE = "[python3, -m, http.server, '8000', --directory, /site]"
HEALTHY = (
    "{interval: 300ms, retries: 30, test: [CMD, python3, -c, "
    "'import urllib.request as r; r.urlopen(\"http://localhost:8000\")']}"
)
WEB = (
    f"{{image: '${{MAIN_IMAGE_NAME}}', command: {SERVE}, healthcheck: {HEALTHY}, "
    "volumes: ['./site:/site']}"
)
ASK = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}:8000/', timeout=5).read().decode())\""


async def belongings(lease):
    """Names of all that is there of a lease."""
    label = f"{LEASE_LABEL}={lease.id}"
    async with connect(engine_host()) as docker:
        found = [
            *await life.listed(docker, label),
            *await resources.listed_networks(docker, label),
            *await resources.listed_volumes(docker, label),
        ]
    return sorted(one.name.removeprefix(lease.name) for one in found)


@pytest.fixture
def task(tmp_path):
    """Writes a Compose file into a task's directory, and returns the plan of that task."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("hello")

    def write(text, **plan):
        (tmp_path / "docker-compose.yaml").write_text(textwrap.dedent(text))
        plan = {"image": python_image(), **plan}
        return SandboxPlan(compose=tmp_path / "docker-compose.yaml", **plan)

    write.folder = tmp_path
    return write


@pytest.fixture
def web(task):
    """A sandbox that waits for a server, and for what a third service makes."""
    return task(
        f"""
        services:
          main:
            depends_on:
              web: {{condition: service_healthy}}
              setup: {{condition: service_completed_successfully}}
            environment: {{WHO: "${{WHO:-me}}"}}
            volumes: ["made:/made:ro"]
          web:
            image: ${{MAIN_IMAGE_NAME}}
            command: {SERVE}
            volumes: ["./site:/site:ro"]
            healthcheck: {HEALTHY}
          setup:
            image: ${{MAIN_IMAGE_NAME}}
            command: [sh, -c, "sleep 1; echo done > /made/word"]
            volumes: ["made:/made"]
        volumes: {{made: }}
        """
    )


async def test_a_sandbox_finds_its_services_by_name_when_they_are_ready(web):
    env = docker_env(image=None)
    lease = docker_lease(env)
    async with env.open(web, lease) as session:
        told = await session.exec(f"cat /made/word; echo $WHO; {ASK.format('web')}; touch /made/x")
        assert told.stdout == "done\nme\nhello\n"
        assert "Read-only" in told.stderr
        assert await belongings(lease) == ["", "-default", "-made", "-setup", "-web"]
        assert (await session.exec("env")).stdout.count("WHO=me") == 1
    assert await belongings(lease) == []


async def test_what_is_left_is_removed_by_the_lease_alone_as_another_process_does(web):
    env = docker_env(image=None)
    lease = docker_lease(env, keep=True)
    async with env.open(web, lease):
        pass
    assert len(await belongings(lease)) == 5
    await DockerEnvironment(DockerParams()).remove(lease)
    assert await belongings(lease) == []
    await env.remove(lease)


@pytest.mark.parametrize("milliseconds", [0, 30, 100, 200, 400, 800, 1500])
async def test_cancelled_at_any_moment_nothing_is_left(web, milliseconds):
    env = docker_env(image=None)
    lease = docker_lease(env)
    with trio.move_on_after(milliseconds / 1000):
        async with env.open(web, lease):
            await trio.sleep_forever()
    await env.remove(lease)
    assert await belongings(lease) == []


async def test_several_sandboxes_of_one_task_do_not_meet(task):
    plan = task(f"services: {{web: {WEB}}}")
    env = docker_env(image=None)
    seen = {}

    async def one(number):
        async with env.open(plan, docker_lease(env)) as session:
            script = f"python3 -c 'import socket; print(socket.gethostbyname(\"web\"))'; {ASK.format('web')}"
            seen[number] = (await session.exec(script)).stdout.split()

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(one, number)
    assert len({address for address, _ in seen.values()}) == 4
    assert {word for _, word in seen.values()} == {"hello"}


# --- services that fail


async def refused(plan, **params):
    """The error of a sandbox that cannot be opened, of which nothing is left."""
    env = docker_env(image=None, **params)
    lease = docker_lease(env)
    with pytest.raises(SandboxError) as caught:
        async with env.open(plan, lease):
            pass
    assert await belongings(lease) == []
    return caught.value


async def test_a_service_that_ends_while_it_is_started_is_named_with_its_last_words(task):
    plan = task(
        "services: {db: {image: '${MAIN_IMAGE_NAME}', command: [sh, -c, 'echo no licence >&2; exit 3']}}"
    )
    error = await refused(plan)
    assert error.message == "the service db ended with exit code 3\nno licence"
    assert (error.code, error.retryable) == ("service-failed", True)


async def test_a_service_that_is_never_well_is_named_with_what_its_check_said(task):
    plan = task(
        """
        services:
          db:
            image: ${MAIN_IMAGE_NAME}
            command: [sh, -c, "echo up; sleep 1000"]
            healthcheck: {test: "echo not yet; exit 1", interval: 200ms, retries: 2}
        """
    )
    error = await refused(plan)
    assert error.message == "the service db is not well: not yet\nup"
    assert error.code == "service-failed"


async def test_a_service_that_starts_again_and_again_is_given_up(task, monkeypatch):
    monkeypatch.setattr(start, "MAX_RESTARTS", 2)
    plan = task(
        "services: {db: {image: '${MAIN_IMAGE_NAME}', command: [sh, -c, 'echo oh; exit 1'], restart: always}}"
    )
    error = await refused(plan)
    assert error.message.startswith("the service db ends again and again\noh")


async def test_who_waits_for_health_that_nobody_looks_at_is_told(task):
    error = await refused(
        task(
            """
            services:
              main: {depends_on: {db: {condition: service_healthy}}}
              db: {image: "${MAIN_IMAGE_NAME}", command: [sleep, "1000"]}
            """
        )
    )
    assert "main waits until db is healthy, which has no healthcheck" in error.message
    assert (error.code, error.retryable) == ("bad-compose", False)


async def test_a_service_that_ends_before_it_was_well_is_a_failure_though_it_ended_well(task):
    error = await refused(
        task(
            """
            services:
              main: {depends_on: {db: {condition: service_healthy}}}
              db:
                image: ${MAIN_IMAGE_NAME}
                command: [sleep, "0.2"]
                healthcheck: {test: exit 0, interval: 30s}
            """
        )
    )
    assert error.message == "the service db ended with exit code 0"


async def test_a_service_that_ends_later_is_the_agent_s_doing_and_told(web):
    env = docker_env(image=None)
    lease = docker_lease(env)
    async with env.open(web, lease) as session:
        assert "services_ended" not in await session.usage()
        async with connect(engine_host()) as docker:
            await life.kill(docker, f"{lease.name}-web")
            await life.wait(docker, f"{lease.name}-web", seconds=30)
        assert (await session.usage())["services_ended"] == {"web": "ended with exit code 137"}


# --- files and volumes


def shared(task):
    """Two services that write into one directory of the task, and read a file of it."""
    (task.folder / "note").write_text("note")
    (task.folder / "data").mkdir()
    (task.folder / "data" / "seed").write_text("seed")
    (task.folder / "data" / "link").symlink_to("seed")
    return task(
        """
        services:
          main:
            depends_on: {side: {condition: service_completed_successfully}}
            volumes: ["./data:/data", "./note:/note:ro", "./none:/none"]
          side:
            image: ${MAIN_IMAGE_NAME}
            command: [sh, -c, "cat /data/seed >/data/copy; echo x >/none/x"]
            volumes: ["./data:/data", "./none:/none"]
        """
    )


@pytest.mark.parametrize("is_here", [True, False], ids=["this machine", "elsewhere"])
async def test_directories_are_shared_copies_and_the_task_s_own_stay_as_they_are(
    task, monkeypatch, is_here
):
    plan = shared(task)
    env = docker_env(image=None)
    lease = docker_lease(env)
    async with env._engine.use() as connected:
        monkeypatch.setattr(connected.docker, "is_here", is_here)
        async with env.open(plan, lease) as session:
            told = await session.exec("cat /data/copy /note /none/x; readlink /data/link")
            assert told.stdout == "seednotex\nseed\n"
            await session.exec("rm /data/seed; echo y > /data/copy")
            touched = await session.exec("touch /note")
            assert ("Read-only" in touched.stderr) is is_here
    assert sorted(path.name for path in (task.folder / "data").iterdir()) == ["link", "seed"]
    assert not (task.folder / "none").exists()
    assert await belongings(lease) == []


async def test_an_engine_that_does_not_see_the_task_s_directory_gets_copies(task, monkeypatch):
    plan = shared(task)
    (hidden := task.folder.parent / "elsewhere").mkdir()
    # as if this program ran in a container, with the socket of the engine around it
    from agentcompass.components.environments.docker.compose import files

    lay = files._Laying.lay

    def laid(self, service, mount):
        for made in lay(self, service, mount):
            is_bind = made["Type"] == "bind"
            yield {**made, "Source": str(hidden / "none")} if is_bind else made

    monkeypatch.setattr(files._Laying, "lay", laid)
    env = docker_env(image=None)
    lease = docker_lease(env)
    async with env.open(plan, lease) as session:
        assert (await session.exec("cat /note")).stdout == "note"
    assert await belongings(lease) == []


async def test_a_link_out_of_the_task_s_directory_is_not_followed(task):
    (task.folder / "data").mkdir()
    (task.folder / "data" / "out").symlink_to("/etc/passwd")
    plan = task(
        "services: {s: {image: '${MAIN_IMAGE_NAME}', command: [sleep, '9'], volumes: ['./data:/d']}}"
    )
    error = await refused(plan)
    assert error.code == "bad-compose"
    assert "data/out, a link out of the task's directory" in error.message


# --- networks


async def test_a_task_without_a_network_reaches_its_services_and_nothing_else(task):
    plan = task(f"services: {{web: {WEB}}}", network=False)
    env = docker_env(image=None, network="default")
    lease = docker_lease(env)
    async with env.open(plan, lease) as session:
        assert (await session.exec(ASK.format("web"))).stdout == "hello\n"
        async with connect(engine_host()) as docker:
            ask = resources.Ask("GET", f"/networks/{lease.name}-default", "look at a network")
            network = await docker.call(ask)
        assert network["Internal"]
        gateway = network["IPAM"]["Config"][0]["Gateway"]
        script = (
            "import socket, sys\n"
            "for place in sys.argv[1:]:\n"
            "    s = socket.socket()\n"
            "    s.settimeout(1)\n"
            "    print(s.connect_ex((place, 22)) not in (0, 111))\n"
        )
        told = await session.exec(["python3", "-c", script, gateway, "192.0.2.1"], timeout=60)
        assert told.stdout == "True\nTrue\n"  # nobody is there, not even to refuse


async def test_networks_of_a_file_keep_services_apart(task):
    plan = task(
        f"""
        services:
          main: {{networks: [front]}}
          proxy:
            image: ${{MAIN_IMAGE_NAME}}
            command: {SERVE}
            healthcheck: {HEALTHY}
            volumes: ["./site:/site"]
            networks: {{front: {{aliases: [shop]}}, back: }}
          db:
            image: ${{MAIN_IMAGE_NAME}}
            command: {SERVE}
            healthcheck: {HEALTHY}
            volumes: ["./site:/site"]
            networks: [back]
        networks: {{front: , back: {{internal: true}}}}
        """
    )
    env = docker_env(image=None)
    lease = docker_lease(env)
    async with env.open(plan, lease) as session:
        assert (await session.exec(ASK.format("shop"))).stdout == "hello\n"
        assert (await session.exec(ASK.format("db"))).returncode != 0
        async with connect(engine_host()) as docker:
            proxy = await life.inspect(docker, f"{lease.name}-proxy")
        assert len(proxy.details["NetworkSettings"]["Networks"]) == 2
    assert await belongings(lease) == []


async def test_a_network_of_the_user_is_joined_by_the_sandbox_and_stays(task):
    plan = task("services: {s: {image: '${MAIN_IMAGE_NAME}', command: [sleep, '1000']}}")
    async with connect(engine_host()) as docker:
        name = new_name()
        await resources.create_network(docker, name, {})
        try:
            env = docker_env(image=None, network=name)
            lease = docker_lease(env)
            async with env.open(plan, lease):
                joined = (await state_of(lease.name)).details["NetworkSettings"]["Networks"]
                assert set(joined) == {f"{lease.name}-default", name}
            ask = resources.Ask("GET", f"/networks/{name}", "look at a network")
            assert (await docker.call(ask))["Containers"] == {}
        finally:
            await resources.remove_network(docker, name)


async def test_allowed_hosts_and_services_exclude_each_other_and_that_is_told_beforehand(task):
    alone = task("services: {main: {hostname: box}}")
    env = docker_env(image=None, allowed_hosts=("model.test:80",))
    assert [source.name for source in env.images_of(alone)] == [python_image()]
    plan = task("services: {s: {image: x}}")
    with pytest.raises(SandboxError, match="allowed_hosts cannot be had") as caught:
        docker_env(image=None, allowed_hosts=("model.test:80",)).images_of(plan)
    assert (caught.value.code, caught.value.retryable) == ("unsupported-sandbox", False)


# --- the sandbox itself


async def test_the_file_says_how_the_sandbox_itself_is(task):
    plan = task(
        """
        services:
          main:
            hostname: box
            user: nobody
            working_dir: /work
            tmpfs: [/fast]
            ulimits: {nofile: 77}
            command: [sh, -c, "echo $$FROM > /tmp/started; sleep 1000"]
            environment: [FROM=file]
            deploy: {resources: {limits: {memory: 64m}}}
        """
    )
    env = docker_env(image=None)
    async with env.open(plan, docker_lease(env)) as session:
        with trio.fail_after(30):
            while not await session.exists("/tmp/started"):
                await trio.sleep(0.1)
        script = "hostname; id -un; pwd; ulimit -n; cat /tmp/started; df /fast | tail -1"
        lines = (await session.exec(script)).stdout.splitlines()
        assert lines[:5] == ["box", "nobody", "/work", "77", "file"]
        assert lines[5].startswith("tmpfs")
        assert (await session.usage())["memory_limit_bytes"] == 64 << 20


async def test_images_of_services_are_built_and_all_are_named(task):
    (task.folder / "svc").mkdir()
    (task.folder / "svc" / "Dockerfile").write_text(
        f"FROM {python_image()}\nARG WORD\nRUN echo $WORD > /word\n"
    )
    plan = task(
        """
        services:
          main: {build: {context: svc, args: {WORD: main}}}
          side: {build: {context: svc, args: {WORD: side}}, command: [sh, -c, "cat /word; exit 1"]}
        """,
        image=None,
    )
    env = docker_env(image=None)
    sources = env.images_of(plan)
    assert [source.build.args for source in sorted(sources, key=lambda one: one.name)] == [
        (("WORD", "main"),),
        (("WORD", "side"),),
    ]
    await env.fetch(plan, lambda _line: None)
    assert None not in (await env.check_images(sources)).values()
    error = await refused(plan)
    assert error.message.endswith("\nside")


async def test_a_file_that_cannot_be_used_is_told_before_anything_is_made(task):
    plan = task("services: {s: {image: x, privileged: true}}")
    env = docker_env(image=None)
    for work in (env.images_of, lambda given: env.fetch(given, print)):
        with pytest.raises(SandboxError, match="privileged service") as caught:
            await work(plan)
        assert caught.value.code == "bad-compose"


async def test_people_are_told_once_what_is_left_out(task):
    plan = task("services: {s: {image: '${MAIN_IMAGE_NAME}', ports: ['80']}}")
    env = docker_env(image=None)
    lines = []
    for _ in range(3):
        await env.fetch(plan, lines.append)
    assert lines == ["ports of services are not published: other services reach them all"]


# --- what a killed process has left


async def test_what_a_killed_process_has_asked_for_may_still_come():
    env = docker_env()
    lease = docker_lease(env, owner=DEAD, age=60)
    async with connect(engine_host()) as docker:
        await resources.create_volume(docker, f"{lease.name}-a", labels_of(lease))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(env.remove, lease)
            while await belongings(lease):
                await trio.sleep(0.05)
            config = {"Labels": labels_of(lease), "Image": python_image(), "Cmd": ["sleep", "9"]}
            await life.create(docker, f"{lease.name}-side", config)
            with trio.fail_after(30):
                while await belongings(lease):
                    await trio.sleep(0.05)
            config = {**config, "Labels": labels_of(lease)}
            await life.create(docker, lease.name, config)
    assert await belongings(lease) == []


async def test_what_only_has_the_name_is_not_ours_and_then_nothing_is_touched(task):
    plan = task("services: {s: {image: '${MAIN_IMAGE_NAME}', command: [sleep, '1000']}}")
    env = docker_env(image=None)
    lease = docker_lease(env, keep=True)
    async with env.open(plan, lease):
        pass
    try:
        foreign = attrs.evolve(lease, id=new_name())
        with pytest.raises(SandboxError) as caught:
            await env.remove(foreign)
        assert caught.value.code == "bad-lease"
        assert len(await belongings(lease)) == 3
    finally:
        await env.remove(lease)
