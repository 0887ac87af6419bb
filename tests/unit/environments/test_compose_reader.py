"""Compose files of tasks: what is understood, and what is refused with its place."""

import textwrap

import pytest

from agentcompass.components.base import ImageBuild, ImageSource, MiB, Resources, SandboxPlan
from agentcompass.components.environments.docker.compose.bodies import program_of
from agentcompass.components.environments.docker.compose.plans import plan_of_main
from agentcompass.components.environments.docker.compose.project import HealthCheck, Mount, Service
from agentcompass.components.environments.docker.compose.reader import read_project
from agentcompass.components.environments.docker.compose.variables import dotenv, interpolated
from agentcompass.errors import SandboxError


@pytest.fixture
def read(tmp_path):
    """Reads a file of that text, with a plan of these fields."""

    def reading(text, **plan):
        file = tmp_path / "docker-compose.yaml"
        file.write_text(textwrap.dedent(text))
        return read_project(SandboxPlan(compose=file, **plan))

    reading.folder = tmp_path
    return reading


@pytest.fixture
def problems(read):
    """What is wrong with a file, a line each, without the directory."""

    def refused(text, **plan):
        with pytest.raises(SandboxError) as caught:
            read(text, **plan)
        assert (caught.value.code, caught.value.retryable) == ("bad-compose", False)
        lines = caught.value.message.splitlines()[1:]
        return [line.replace(f"{read.folder}/", "") for line in lines]

    return refused


def side(project, name):
    (found,) = [one for one in project.sides if one.name == name]
    return found


# --- what is understood


def test_a_service_says_what_its_container_is(read):
    (read.folder / "api").mkdir()
    (read.folder / "more.env").write_text("A=file\nB='x y' # no more\n")
    project = read(
        """
        services:
          api:
            build: {context: api, dockerfile: Dockerfile.dev, args: [V=1, OTHER], target: run}
            entrypoint: [/init]
            command: python -m "my server"
            environment: {A: 1, SHOWN: true, NOTHING: }
            env_file: [more.env, {path: none.env, required: false}]
            user: "1000"
            working_dir: /srv
            hostname: api-1
            container_name: the-api
            healthcheck: {test: curl -f localhost, interval: 1m30s, timeout: 500ms, retries: 3, start_period: 0s}
            restart: on-failure:3
            networks: {back: {aliases: [backend]}, front: }
            dns: 192.0.2.1
            extra_hosts: ["host.x:10.0.0.1"]
            cap_add: [sys_ptrace]
            cap_drop: [ALL]
            ulimits: {nofile: 1024, nproc: {soft: 1, hard: 2}}
            shm_size: 64m
            deploy: {resources: {limits: {cpus: "1.5", memory: 1g, pids: 50}}}
            tmpfs: /run:size=1m
            init: true
            labels: {ignored: yes}
            x-ours: {anything: 1}
        networks: {back: {internal: true}, front: {driver: bridge}}
        """
    )
    api = side(project, "api")
    assert api.build == ImageBuild(
        context=read.folder / "api", dockerfile="Dockerfile.dev", args={"V": "1"}, target="run"
    )
    assert (api.entrypoint, api.command) == (("/init",), ("python", "-m", "my server"))
    assert api.env == {"A": "1", "B": "x y", "SHOWN": "true"}
    assert (api.user, api.working_dir, api.hostname) == ("1000", "/srv", "api-1")
    assert api.health == HealthCheck(
        test=("CMD-SHELL", "curl -f localhost"),
        interval_seconds=90.0,
        timeout_seconds=0.5,
        start_period_seconds=0.0,
        retries=3,
    )
    assert (api.restart, api.max_restarts, api.init) == ("on-failure", 3, True)
    assert api.networks == {"back": ("api", "the-api", "backend"), "front": ("api", "the-api")}
    assert (api.dns, api.extra_hosts) == (("192.0.2.1",), ("host.x:10.0.0.1",))
    assert (api.cap_add, api.cap_drop) == (("SYS_PTRACE",), ("ALL",))
    assert api.ulimits == {"nofile": (1024, 1024), "nproc": (1, 2)}
    assert (api.shm_bytes, api.tmpfs) == (64 * MiB, {"/run": "size=1m"})
    assert api.resources == Resources(cpus=1.5, memory_mb=1024, pids=50)
    assert project.networks == {"default": False, "back": True, "front": False}


def test_volumes_are_named_anonymous_or_of_the_task_s_directory(read):
    (read.folder / "seed").mkdir()
    project = read(
        """
        services:
          db:
            image: db:1
            volumes:
              - data:/data
              - ./seed:/seed:ro
              - /anonymous
              - {type: bind, source: seed, target: /written}
              - {type: volume, source: data, target: /again, read_only: true}
              - {type: tmpfs, target: /fast, tmpfs: {size: 1k}}
        volumes: {data: , unused: {}}
        """
    )
    assert side(project, "db").mounts == (
        Mount(target="/data", volume="data"),
        Mount(target="/seed", path=read.folder / "seed", is_read_only=True),
        Mount(target="/anonymous"),
        Mount(target="/written", path=read.folder / "seed"),
        Mount(target="/again", volume="data", is_read_only=True),
    )
    assert side(project, "db").tmpfs == {"/fast": "size=1024"}
    assert project.volumes == ("data",)


@pytest.mark.parametrize(
    ("depends_on", "conditions"),
    [
        ("[a, b]", {"a": "service_started", "b": "service_started"}),
        (
            "{a: {condition: service_healthy}, b: {condition: service_completed_successfully, required: true}}",
            {"a": "service_healthy", "b": "service_completed_successfully"},
        ),
    ],
    ids=["list", "mapping"],
)
def test_what_a_service_waits_for(read, depends_on, conditions):
    services = f"services: {{main: {{depends_on: {depends_on}}}, a: {{image: a}}, b: {{image: b}}}}"
    assert read(services).main.depends_on == conditions


def test_a_service_of_a_profile_is_left_out_and_published_ports_are_told(read):
    project = read(
        "services: {a: {image: a, ports: ['80:80']}, debug: {image: d, profiles: [debug]}}"
    )
    assert [one.name for one in project.sides] == ["a"]
    assert project.notes == (
        "ports of services are not published: other services reach them all",
        "the service debug is left out: it belongs to a profile",
    )


# --- which service is the sandbox


@pytest.mark.parametrize(
    ("services", "main", "sides"),
    [
        ("{main: {image: m}, client: {image: c}}", "main", ["client"]),
        ("{web: {image: '${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}'}, x: {image: x}}", "web", ["x"]),
        ("{client: {build: .}, x: {image: x}}", "client", ["x"]),
        ("{x: {image: x}}", "main", ["x"]),
    ],
    ids=["main", "of the task's image", "client", "none of them"],
)
def test_which_service_is_the_sandbox(read, services, main, sides):
    project = read(f"services: {services}")
    assert (project.main.name, [one.name for one in project.sides]) == (main, sides)


def test_a_sandbox_that_is_alone_has_the_network_of_other_sandboxes(read):
    assert read("services: {main: {image: m}}").main.networks is None
    assert read("services: {main: {image: m, network_mode: none}}").main.networks == {}
    assert read("services: {main: {image: m}, x: {image: x}}").main.networks == {
        "default": ("main",)
    }


TASK = ImageBuild(context="/task", timeout_seconds=60.0)


@pytest.mark.parametrize(
    ("service", "image", "build"),
    [
        ("{}", "task:1", TASK),
        ("{image: '${MAIN_IMAGE_NAME}'}", "task:1", TASK),
        ("{image: other:2}", "other:2", None),
        ("{build: .}", "task:1", ...),
        ("{image: '${MAIN_IMAGE_NAME}', build: .}", "task:1", ...),
        ("{image: other:2, build: .}", "other:2", ...),
    ],
)
def test_where_the_image_of_the_sandbox_comes_from(read, service, image, build):
    plan = SandboxPlan(image="task:1", build=TASK)
    project = read(f"services: {{main: {service}}}", image="task:1", build=TASK)
    if build is ...:
        build = ImageBuild(context=read.folder, timeout_seconds=60.0)
    assert project.source_of(project.main, plan) == ImageSource(image=image, build=build)


def test_a_name_that_is_only_for_what_is_built_is_no_image_to_pull(read):
    project = read("services: {web: {image: '${T_BENCH_TASK_DOCKER_NAME_PREFIX}__web', build: .}}")
    source = project.source_of(side(project, "web"), SandboxPlan())
    assert source == ImageSource(build=ImageBuild(context=read.folder))


def test_other_services_may_start_from_the_task_s_image_too(read):
    project = read("services: {web: {image: '${MAIN_IMAGE_NAME}'}}")
    plan = SandboxPlan(image="task:1", build=TASK)
    assert project.source_of(side(project, "web"), plan) == ImageSource(image="task:1", build=TASK)


def test_the_task_s_word_comes_before_the_file_s():
    main = Service(
        name="main",
        user="file",
        working_dir="/file",
        env={"A": "file", "B": "file"},
        resources=Resources(cpus=1.0, memory_mb=1),
    )
    plan = SandboxPlan(user="task", env={"A": "task"}, resources=Resources(cpus=2.0))
    merged = plan_of_main(plan, main)
    assert (merged.user, merged.workdir) == ("task", "/file")
    assert merged.env == {"A": "task", "B": "file"}
    assert merged.resources == Resources(cpus=2.0, memory_mb=1)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ({}, ((), ())),
        ({"command": ("sleep", "infinity")}, ((), ())),
        ({"command": ("sh", "-c", "sleep infinity")}, ((), ())),
        ({"command": ("/bin/bash", "-c", "exec tail -f /dev/null")}, ((), ())),
        ({"command": ("bash",)}, ((), ())),
        ({"command": ("nginx", "-g", "x")}, (None, ("nginx", "-g", "x"))),
        ({"entrypoint": ("/start",)}, (("/start",), ())),
        ({"entrypoint": ("/start",), "command": ("sleep", "9")}, (("/start",), ("sleep", "9"))),
        ({"entrypoint": (), "command": ("sleep", "9")}, ((), ())),
    ],
)
def test_a_program_that_only_waits_is_not_run(words, program):
    assert program_of(Service(name="main", **words)) == program


# --- directories of logs


def test_directories_of_logs_stay_with_the_sandbox_and_only_shared_ones_are_volumes(read):
    alone = read(
        "services: {main: {image: m, volumes: ['${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}']}}"
    )
    assert (alone.main.mounts, alone.volumes) == ((), ())
    shared = read(
        "services: {side: {image: s, volumes: ['${HOST_ARTIFACTS_PATH:-./artifacts}:/out']}}"
    )
    (volume,) = shared.volumes
    assert side(shared, "side").mounts == (Mount(target="/out", volume=volume),)
    assert shared.main.mounts == (Mount(target="/logs/artifacts", volume=volume),)


# --- variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A ${A} $$A $$", "1 1 $A $"),
        ("${A:-x} ${A-x} ${EMPTY:-x} ${EMPTY-x} ${NONE:-x} ${NONE-x}", "1 1 x  x x"),
        ("${A:+y}${A+y}${EMPTY:+y}${EMPTY+y}${NONE:+y}", "yyy"),
        ("${NONE:-${A}-${NONE:-z}}}", "1-z}"),
        ("${A:?no} ${A?no}", "1 1"),
        ("no dollar", "no dollar"),
        ("a${NONE}b$NONE", "ab"),
    ],
)
def test_variables_are_replaced(text, value):
    assert interpolated(text, {"A": "1", "EMPTY": ""}) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NONE:?give it}", "NONE has no value: give it"),
        ("${EMPTY:?give it}", "EMPTY has no value: give it"),
        ("${A", "no closing brace"),
        ("${}", "is no variable"),
        ("${A B}", "is no variable"),
        ("$(date)", r"`\$\$` is a dollar sign"),
    ],
)
def test_a_variable_without_a_value_is_told(text, words):
    with pytest.raises(ValueError, match=words):
        interpolated(text, {"A": "1", "EMPTY": ""})


def test_values_come_from_the_task_then_from_a_file_and_never_from_this_process(read, monkeypatch):
    monkeypatch.setenv("SECRET", "of this process")
    (read.folder / ".env").write_text("A=file\nB=file\nMEMORY=file\n")
    project = read(
        "services: {s: {image: s, environment: [A=$A, 'B=${B}', M=$MEMORY, SECRET, A2=$A]}}",
        env={"A": "task"},
        resources=Resources(memory_mb=7),
    )
    assert side(project, "s").env == {"A": "task", "B": "file", "M": "7M", "A2": "task"}


def test_a_variable_without_a_value_stands_for_nothing_and_is_noted(read):
    (read.folder / ".env").write_text("A=$GONE\n")
    project = read("services: {s: {image: s, environment: ['B=x$A', 'C=${NEW}', 'D=${NEW:-d}']}}")
    assert side(project, "s").env == {"B": "x", "C": "", "D": "d"}
    assert project.notes == (
        "the variable GONE of a Compose file has no value: it stands for nothing",
        "the variable NEW of a Compose file has no value: it stands for nothing",
    )


def test_a_file_of_variables_has_quotes_comments_and_references():
    said = []
    text = '# words\nexport A=1\nB = two # more\nC=\'$A #\'\nD="$A\\n\\$x"\nE=\nF=${A}2\nG\n=bad\nH="x\n'
    found = dotenv(text, {}, lambda line, why: said.append((line, why)))
    assert found == {"A": "1", "B": "two", "C": "$A #", "D": "1\n$x", "E": "", "F": "12"}
    assert [line for line, _ in said] == [9, 10]


# --- what is refused


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("{image: x, volume: []}", "docker-compose.yaml:2:17: services.s.volume: this key is not"),
        ("{image: x, privileged: true}", "services.s.privileged: a privileged service would"),
        ("{image: x, pid: host}", "services.s.pid: "),
        ("{image: x, ipc: 'service:main'}", "services.s.ipc: "),
        ("{image: x, network_mode: host}", "services.s.network_mode: 'host' would not be"),
        ("{image: x, network_mode: 'service:a'}", "services.s.network_mode: "),
        ("{image: x, volumes: ['/var/run/docker.sock:/x']}", "services.s.volumes[0]: the socket"),
        ("{image: x, volumes: ['/etc:/x']}", "'/etc' is not in the task's directory"),
        ("{image: x, volumes: ['~/.ssh:/x']}", "services.s.volumes[0]: "),
        ("{image: x, volumes: ['../..:/x']}", "'../..' is not in the task's directory"),
        ("{image: x, volumes: ['./out:/x']}", "'./out' is not in the task's directory"),
        ("{image: x, volumes: ['nowhere:/x']}", "'nowhere' is no volume of this file"),
        ("{image: x, volumes: ['a:b']}", "'b' is no absolute path"),
        ("{image: x, volumes: ['/x', '/x']}", "/x has more than one volume"),
        ("{image: x, volumes: ['./f:/x:shared']}", "'shared' is no option of a volume"),
        ("{image: x, build: {context: ../..}}", "services.s.build.context: '../..' is not in"),
        ("{build: {dockerfile: ../Dockerfile}}", "must be a path in the build's context"),
        ("{build: {secrets: [a]}}", "services.s.build.secrets: the engine's own builder"),
        ("{image: 'No Such'}", "'No Such' is no name of an image"),
        ("{}", "services.s.image: an image or a build is needed"),
        ("{image: x, devices: [/dev/kvm]}", "services.s.devices: devices of the machine"),
        ("{image: x, cap_add: [SYS_ADMIN]}", "SYS_ADMIN could reach the machine"),
        ("{image: x, security_opt: ['seccomp=unconfined']}", "walls are the parameter"),
        ("{image: x, extra_hosts: ['me:host-gateway']}", "the machine itself is not given"),
        ("{image: x, networks: [none-such]}", "'none-such' is no network of this file"),
        ("{image: x, networks: {default: {ipv4_address: 10.0.0.2}}}", "addresses are the engine's"),
        ("{image: x, depends_on: [nobody]}", "'nobody' is no service of this file"),
        ("{image: x, depends_on: {s2: {condition: ready}}}", "must be one of service_started, "),
        ("{image: x, depends_on: [s]}", "services.s.depends_on: waits for itself"),
        ("{image: x, healthcheck: {test: [curl]}}", "must begin with one of CMD, CMD-SHELL"),
        ("{image: x, healthcheck: {interval: 5}}", "must be a duration such as 1m30s, not '5'"),
        ("{image: x, shm_size: much}", "must be a size such as 512m, not 'much'"),
        ("{image: x, init: perhaps}", "must be true or false, not 'perhaps'"),
        ("{image: x, restart: sometimes}", "must be one of no, always"),
        ("{image: x, deploy: {replicas: 2}}", "a service is one container"),
        ("{image: x, env_file: none.env}", "'none.env' cannot be read: No such file"),
        (
            "{image: '${WHICH:?say it}'}",
            "services.s.image: the variable WHICH has no value: say it",
        ),
        ("{image: x, command: 'a \"b'}", "is no command: No closing quotation"),
    ],
)
def test_what_is_not_understood_or_would_give_away_the_machine_is_refused_by_its_place(
    problems, service, words, tmp_path
):
    (tmp_path / "out").symlink_to("/etc")
    (line,) = problems(f"services:\n  s: {service}\n  s2: {{image: y}}\n")
    assert words in line
    assert line.startswith("docker-compose.yaml:2:")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: []", "has no services"),
        ("volumes: {a: }", "has no services"),
        ("services: {a: {image: x}}\nsecrets: {}", "secrets: secrets are not read"),
        ("services: {a: {image: x}}\ninclude: [other.yaml]", "include: other files are not read"),
        ("services: {a: {image: x}}\nnetworks: {n: {external: true}}", "what is external would be"),
        ("services: {a: {image: x}}\nnetworks: {n: {driver: host}}", "networks.n.driver: this"),
        ("services: {a: {image: x}}\nnetworks: {n: {ipam: {}}}", "networks.n.ipam: addresses are"),
        ("services: {a: {image: x}}\nvolumes: {v: {external: true}}", "what is external would be"),
        ("services: {a: {image: x}}\nvolumes: {v: {driver_opts: {}}}", "volumes.v.driver_opts"),
        ("services: {'a b': {image: x}}", "is no name of a service"),
        ("services: {main: {image: x, read_only: true}}", "the sandbox itself must be writable"),
        ("services: {a: {image: !reset x}}", "the tag !reset is not allowed"),
        ("services: {a: {image: x, image: y}}", "the key stands here twice"),
        ("services: {", "is not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(problems, text, words):
    assert any(words in line for line in problems(text)), problems(text)


def test_all_that_is_wrong_is_told_at_once(problems):
    lines = problems("services: {a: {image: x, pid: host, devices: []}, b: {}}\nsecrets: {}")
    assert len(lines) == 4


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SandboxError, match="there is no such file"):
        read_project(SandboxPlan(compose=tmp_path / "none.yaml"))
