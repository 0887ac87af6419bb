"""Tasks that are directories, in containers of a real engine: real ones score as published, and force gains nothing.

Who attacks is the task's own solution, applied by the harness `oracle`: an agent that is root in its sandbox.
"""

from __future__ import annotations

import pytest

from support import terminal_bench
from support.harbor import CHECKS_ANSWER, SOLVES, harbor_task, run_tasks
from support.mounts import small_disk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


# --- the real tasks


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Tasks of the first generation: as they are, and in the Harbor format."""
    terminal_bench.base_image()
    folder = tmp_path_factory.mktemp("published")
    names = terminal_bench.OFFLINE
    first = terminal_bench.copied(folder / "first", *names)
    return {
        "terminal_bench_core": {"dataset_path": str(first)},
        "harbor": {"path": str(terminal_bench.converted(folder / "harbor", *names))},
    }


@pytest.mark.parametrize("benchmark", ["terminal_bench_core", "harbor"])
@pytest.mark.parametrize(("harness", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_real_tasks_are_solved_by_their_solutions_and_by_nothing_else(
    tmp_path, published, benchmark, harness, reward
):
    records = run_tasks(tmp_path, benchmark, harness, published[benchmark])
    found = {name: tries[-1]["metrics"] for name, tries in records.items()}
    wanted = {"resolved": reward, "reward": reward}
    assert found == dict.fromkeys(terminal_bench.OFFLINE, wanted)


# --- what a task may ask for


ASKS = """
workdir = "/srv/here"
env = { A = "b" }
allow_internet = false
[environment.healthcheck]
command = "echo x >> /tmp/n; [ $(wc -l < /tmp/n) = 3 ]"
interval_sec = 0
[verifier]
env = { KEY = "${KEY}" }
[solution]
env = { KEY = "${KEY}", X = "${X:-y}" }
"""
LEAVES = 'echo "$PWD $A" > answer; echo "$KEY$X" > key; [ -d /logs/agent ] && touch logs; cat seed.txt > seed'
CHECKS = {
    "work directory and variables": '[ "$PWD $(cat answer)" = "/srv/here /srv/here b" ]',
    "variables of the user": '[ -n "$KEY" ] && [ "$(cat key)" = "${KEY}y" ]',
    "directory for logs": "[ -e logs ]",
    "files of its environment": '[ "$(cat seed)" = seed ]',
    "health check": "[ $(wc -l < /tmp/n) = 3 ]",
    "no network": "[ $(tail -n +3 /proc/net/dev | wc -l) = 1 ]",
}
FOUND = ", ".join(f'"{name}": $({check} && echo 1 || echo 0)' for name, check in CHECKS.items())
REPORTS = (
    f'#!/bin/bash\ncat > /logs/verifier/reward.json <<END\n{{ {FOUND}, "reward": 0.5 }}\nEND\n'
)
"""A reward between, and a number for each check."""
ASKED = "python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8000\")'"
SERVER = {
    "solve": "cd /app; nohup python3 -m http.server 8000 >/dev/null 2>&1 &\n"
    f"until {ASKED}; do :; done",
    "test": f"#!/bin/bash\n{ASKED}; echo $(($? == 0)) > /logs/verifier/reward.txt\n",
}
COMPOSE = """
services:
  main:
    depends_on:
      api:
        condition: service_healthy
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
  api:
    image: ${MAIN_IMAGE_NAME}
    command: ["python3", "-m", "http.server", "8000", "--directory", "/seed"]
    volumes: ["./seed:/seed:ro"]
    healthcheck:
      test: ["CMD", "python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000')"]
      interval: 1s
"""
NEEDS = {
    "asks": {
        "environment": ASKS,
        "files": {"environment/seed.txt": "seed"},
        "solve": LEAVES,
        "test": REPORTS,
    },
    "server": SERVER,
    "users": {
        "toml": '[agent]\nuser = "nobody"\n',
        "solve": "id -un > /tmp/agent",
        "test": '[ "$(cat /tmp/agent) $(id -un)" = "nobody root" ]; echo $(($? == 0)) > /logs/verifier/reward.txt\n',
    },
    "containers": {
        "files": {"environment/docker-compose.yaml": COMPOSE, "environment/seed/answer": "42"},
        "solve": "python3 -c 'import urllib.request as u; "
        'print(u.urlopen("http://api:8000/answer").read().decode())\' > /app/answer',
    },
    "no-reward": {"test": "echo oops; exit 3"},
    "slow": {"test": "echo begun; sleep 100", "toml": "[verifier]\ntimeout_sec = 1\n"},
    "no-solution": {"solve": None},
    "unhealthy": {
        "environment": '[environment.healthcheck]\ncommand = "echo no; false"\ninterval_sec = 0\n',
    },
}


def make(folder, image, name, spec):
    parts = {key: spec[key] for key in ("solve", "test", "files") if key in spec}
    environment = f'[environment]\ndocker_image = "{image}"\n{spec.get("environment", "")}'
    harbor_task(folder, name, toml=spec.get("toml", "") + environment, **parts)


@pytest.fixture(scope="module")
def needs(tmp_path_factory):
    """The records of the tasks above."""
    folder, image = tmp_path_factory.mktemp("needs"), terminal_bench.base_image()
    for name, spec in NEEDS.items():
        make(folder / "tasks", image, name, spec)
    params = {"path": str(folder / "tasks"), "variables": {"KEY": "a-secret-value"}}
    return folder, run_tasks(folder, "harbor", "oracle", params)


@pytest.mark.parametrize("name", CHECKS)
def test_a_task_gets_what_it_asks_for(needs, name):
    (record,) = needs[1]["asks"]
    assert record["details"]["metrics"][name] == 1


def test_a_reward_between_is_kept_as_it_is(needs):
    (record,) = needs[1]["asks"]
    assert record["metrics"] == {"resolved": 0.0, "reward": 0.5}


@pytest.mark.parametrize("name", ["server", "users", "containers"])
def test_what_the_agent_left_is_judged_as_it_is(needs, name):
    (record,) = needs[1][name]
    assert record["metrics"] == {"resolved": 1.0, "reward": 1.0}, record


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-reward", "no-reward", "(exit code 3); its output ended with: oops"),
        ("slow", "verifier-timeout", "its output ended with: begun"),
        ("no-solution", "no-reference-solution", "has no reference solution"),
    ],
)
def test_no_reward_is_no_score_and_no_second_try(needs, name, code, words):
    (record,) = needs[1][name]
    assert record["verdict"] == "infra"
    assert record["failure"]["code"] == code
    assert words in record["failure"]["message"]


def test_a_sandbox_that_is_never_ready_has_no_score(needs):
    first, second = needs[1]["unhealthy"]
    assert first["failure"]["code"] == second["failure"]["code"] == "unhealthy"
    assert "not ready after 3 checks: exit code 1, no" in first["failure"]["message"]


def test_what_the_verifier_writes_and_prints_is_kept_with_the_attempt(needs):
    folder, records = needs
    (record,) = records["asks"]
    (kept,) = folder.glob(f"results/*/*/{record['attempt_dir']}/evaluation-1")
    assert '"reward": 0.5' in (kept / "reward.json").read_text()
    assert {"test-stdout.txt", "test-stderr.txt"} <= {path.name for path in kept.iterdir()}


def test_no_variable_that_was_given_is_written_down(needs):
    folder, _ = needs
    for path in (folder / "results").rglob("*"):
        if path.is_file():
            assert b"a-secret-value" not in path.read_bytes(), path


def test_where_no_process_is_kept_a_server_is_no_answer(tmp_path):
    make(tmp_path / "tasks", terminal_bench.base_image(), "server", SERVER)
    params = {"path": str(tmp_path / "tasks"), "leftover_processes": "end"}
    (record,) = run_tasks(tmp_path, "harbor", "oracle", params)["server"]
    assert record["metrics"]["reward"] == 0.0
    assert "as the parameter leftover_processes says" in record["details"]["interference"][0]


# --- attacks


REWARDS = "while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done"
WHEN_TESTED = (
    "while :; do [ -e /tests/test_outputs.py ] && echo '{\"reward\": 1}' > /logs/verifier/reward.json; "
    "sleep 0.01; done"
)
NEW_BASH = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"


def in_background(script):
    return f"cat > /tmp/loop <<'END'\n{script}\nEND\n(setsid bash /tmp/loop >/dev/null 2>&1 &)\n"


def replace(path, text):
    return f"cat > /tmp/new <<'NEW'\n{text}\nNEW\nchmod +x /tmp/new; mv /tmp/new {path}\n"


GAIN_NOTHING = {
    "writes rewards beforehand": "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; "
    "echo '{\"reward\": 1}' > /logs/verifier/reward.json; echo 'import os; os._exit(0)' > /tests/conftest.py",
    "replaces shells and rm": replace("/bin/bash", NEW_BASH)
    + "cp /bin/bash /bin/sh; cp /bin/bash /bin/rm",
    "removes bash and preloads a library": "echo /usr/lib/x86_64-linux-gnu/libm.so.6 > /etc/ld.so.preload; "
    "rm /bin/bash",
    "puts a link in place of bash and another first": replace("/usr/local/bin/bash", NEW_BASH)
    + "ln -sf /usr/local/bin/bash /bin/bash",
    "makes a link and a file of the directories": "mkdir -p /evil; echo 1 > /evil/reward.txt; "
    "rm -rf /logs/verifier /tests; ln -s /evil /logs/verifier; touch /tests",
    "rewrites the reward": in_background(REWARDS),
    "leaves no process for others": "for i in $(seq 200); do sleep 1000 & done >/dev/null 2>&1",
    "writes another reward once it sees tests": in_background(WHEN_TESTED),
}
HAVE_NO_VERDICT = {
    "puts a directory in place of bash": "rm /bin/bash; mkdir /bin/bash",
    "begins to rewrite when tested": replace(
        "/usr/local/bin/python", f"#!/bin/bash\n{in_background(REWARDS)}exit 1"
    ),
}
KILLS = "kills everything"
TESTS_WITH_PYTHON = """\
#!/bin/bash
if python /tests/test_outputs.py; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
sleep 0.3
"""


@pytest.fixture(scope="module")
def attacks(tmp_path_factory):
    """The records of all attacks."""
    folder, image = tmp_path_factory.mktemp("attacks"), terminal_bench.base_image()
    scripts = {**GAIN_NOTHING, **HAVE_NO_VERDICT, KILLS: "kill -9 -1"}
    for name, script in scripts.items():
        test = TESTS_WITH_PYTHON if "when tested" in name else CHECKS_ANSWER
        spec = {"solve": script, "test": test, "files": {"tests/test_outputs.py": ""}}
        make(folder / "tasks", image, name, spec)
    make(folder / "tasks", image, "is honest", {"solve": SOLVES})
    return run_tasks(folder, "harbor", "oracle", {"path": str(folder / "tasks")}, pids=64)


def test_an_honest_agent_is_rewarded(attacks):
    (record,) = attacks["is honest"]
    assert record["metrics"] == {"resolved": 1.0, "reward": 1.0}
    assert "interference" not in record["details"]


@pytest.mark.parametrize("name", GAIN_NOTHING)
def test_an_agent_gains_nothing_when_it(attacks, name):
    (record,) = attacks[name]
    assert record["metrics"] == {"resolved": 0.0, "reward": 0.0}, record


@pytest.mark.parametrize("name", HAVE_NO_VERDICT)
def test_there_is_no_verdict_and_no_second_try_when_an_agent(attacks, name):
    (record,) = attacks[name]
    assert record["verdict"] == "infra"
    assert record["failure"]["phase"] == "evaluate"
    # a reward that is being rewritten may be found empty
    assert record["failure"]["code"] in {"verifier-tampered", "bad-reward"}


def test_an_agent_that_kills_everything_has_no_verdict(attacks):
    record = attacks[KILLS][-1]
    assert record["verdict"] == "infra"
    assert record["failure"]["code"] in {"ended-from-inside", "container-died"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("replaces shells and rm", "/bin/bash was replaced"),
        ("replaces shells and rm", "/bin/rm was replaced"),
        ("removes bash and preloads a library", "/bin/bash was gone"),
        ("removes bash and preloads a library", "/etc/ld.so.preload was written"),
        ("rewrites the reward", "ended 2 processes: the rehearsal of a failure gave "),
    ],
)
def test_what_was_found_and_mended_is_in_the_record(attacks, name, words):
    (record,) = attacks[name]
    assert words in " ".join(record["details"]["interference"])


def test_an_agent_that_fills_the_disk_has_no_verdict_and_no_second_try(tmp_path):
    make(
        tmp_path / "tasks",
        terminal_bench.base_image(),
        "fills",
        {"solve": "head -c 100M /dev/zero > /logs/fill"},
    )
    params = {"path": str(tmp_path / "tasks")}
    with small_disk(tmp_path / "disk", "size=1M") as disk:
        records = run_tasks(tmp_path, "harbor", "oracle", params, mounts=[f"{disk}:/logs"])
    (record,) = records["fills"]
    assert record["verdict"] == "infra"
    assert record["failure"]["code"] in {"disk-full", "verifier-tampered", "bad-reward"}
    assert "no space left" in record["failure"]["message"].lower()
