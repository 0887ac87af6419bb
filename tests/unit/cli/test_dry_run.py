"""`--dry-run` of `run` and `launch`: what would run, what it needs and what is missing, without a trace."""

from __future__ import annotations

import json
import textwrap

import pytest
from ruamel.yaml import YAML

from agentcompass.cli.dry_run import _facts
from agentcompass.engine.survey import Survey
from agentcompass.plan.advice import Advice
from support.requests import orchestration
from support.scripted import scripted_request

PARAMS = '{"path": "tasks.jsonl"}'

PLUGIN = '''
"""Components with images, data and habits of their own."""

import attrs

from agentcompass.components.base import Capabilities, ImageSource
from agentcompass.components.benchmarks.jsonl import JsonLines
from agentcompass.components.environments.host_process import HostProcess
from agentcompass.errors import PreflightError


class Images(HostProcess):
    id = "images"

    def __init__(self, params):
        super().__init__(params)
        self.capabilities = Capabilities(images=True)

    def images_of(self, plan):
        return [ImageSource(image=plan.image or "org/own:1")]

    async def check_images(self, sources):
        return {one: None if one.image == "org/two:1" else 1 for one in sources}


class NoDaemon(Images):
    id = "no_daemon"

    async def preflight(self):
        raise PreflightError("the daemon does not answer", hint="Start it.")


class InImages(JsonLines):
    id = "in_images"

    def plan(self, task, plan):
        return attrs.evolve(plan, image={"t0": None, "t1": "org/one:1"}.get(task.id, "org/two:1"))

    def needs_agent_sandbox(self, task):
        return task.id != "t3"


class Downloads(JsonLines):
    id = "downloads"

    async def load_tasks(self, ctx):
        ctx.note("looking for the data")
        if not ctx.may_download:
            raise PreflightError("the data is not there", hint="A run would download 4 GB.")
        ctx.data_dir.mkdir()
        return await super().load_tasks(ctx)


class Bursts(JsonLines):
    id = "bursts"

    def __init__(self, params):
        raise ZeroDivisionError("no tea")
'''


@pytest.fixture
def plugged(program):
    """The program with components of a third party."""
    (program.folder / "plugin.py").write_text(PLUGIN)

    def run(*arguments, **environ):
        path = f"{program.environment()['PYTHONPATH']}:{program.folder}"
        return program(*arguments, PYTHONPATH=path, **environ)

    run.folder = program.folder
    return run


def oracle(*more):
    return ("run", "jsonl", "oracle", "m", "--benchmark-params", PARAMS, *more)


def written(program, text):
    (program.folder / "all.yaml").write_text(textwrap.dedent(text))
    return ("launch", "all.yaml", "--dry-run")


def files(program):
    return {path: path.stat().st_mtime_ns for path in program.folder.rglob("*")}


def test_a_dry_run_prints_what_would_run_and_writes_nothing(program):
    before = files(program)
    done = program(
        *oracle("--dry-run", "--model-api-key", "${KEY}", "--k", "2"), KEY="sk-verysecret"
    )
    assert done.returncode == 0
    assert "api_key: ${KEY}" in done.stdout
    assert "k: 2" in done.stdout
    assert "sk-verysecret" not in done.stdout + done.stderr
    assert files(program) == before


def test_what_a_dry_run_prints_can_be_launched(program):
    (program.folder / "all.yaml").write_text(program(*oracle("--dry-run")).stdout)
    done = program("launch", "all.yaml", "--run-id", "r1", "--progress", "none")
    assert (done.returncode, done.stderr) == (0, "")
    row = done.stdout.splitlines()[2].split()
    assert row[:2] == ["m_jsonl_oracle", "completed"]
    assert (program.folder / "results" / "m_jsonl_oracle" / "r1" / "attempts.jsonl").exists()


def test_a_dry_run_tells_what_is_missing(program):
    (program.folder / "file").write_text("")
    done = program(*oracle("--dry-run", "--results-dir", "file/results"))
    assert done.returncode == 3
    assert done.stdout.startswith("version: 1")
    assert "is not a directory" in done.stderr


def comments(done):
    return [line for line in done.stdout.splitlines() if line.startswith("#")]


def test_what_each_request_needs_stands_below_the_file_as_comments(plugged):
    before = files(plugged)
    done = plugged(
        *written(
            plugged,
            """
            defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}
            requests:
              - {name: plain, execution: {k: 3}}
              - name: boxed
                benchmark: {id: "plugin:InImages", path: tasks.jsonl}
                environment: {id: "plugin:Images"}
            """,
        )
    )
    assert done.returncode == 0, done.stderr
    assert comments(done) == [
        "# request  tasks  attempts  sandboxed  images        reused",
        "# plain    4      12        0          -             -",
        "# boxed    4      4         3          3, 1 missing  -",
        "# images:",
        "#   org/two:1  missing",
        "#   org/one:1  there",
        "#   org/own:1  there",
    ]
    before[plugged.folder / "all.yaml"] = (plugged.folder / "all.yaml").stat().st_mtime_ns
    assert files(plugged) == before, "not even compiled plug-ins"
    assert list(YAML(typ="safe").load(done.stdout))[:2] == ["version", "name"]


def test_every_request_that_could_not_run_says_why_and_the_others_are_looked_at(plugged):
    done = plugged(
        *written(
            plugged,
            """
            defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}
            requests:
              - {name: good}
              - {name: no-file, benchmark: {path: gone.jsonl}}
              - {name: no-data, benchmark: {id: "plugin:Downloads", path: tasks.jsonl}}
              - {name: no-tea, benchmark: {id: "plugin:Bursts", path: tasks.jsonl}}
              - name: no-daemon
                benchmark: {id: "plugin:InImages", path: tasks.jsonl}
                environment: {id: "plugin:NoDaemon"}
              - name: no-images
                benchmark: {id: "plugin:InImages", path: tasks.jsonl}
            """,
        )
    )
    assert done.returncode == 2, "that of the first problem"
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == [
        "no-file",
        "no-data",
        "no-tea",
        "no-daemon",
        "no-images",
    ]
    assert "error: no-data: the data is not there\nA run would download 4 GB." in done.stderr
    assert "note: no-data: looking for the data" in done.stderr
    assert "ZeroDivisionError: no tea" in errors[2]
    assert "the daemon does not answer" in errors[3]
    assert "has no images" in errors[4]
    rows = [line.split() for line in comments(done)]
    assert ["#", "good", "4", "4", "0", "-", "-"] in rows
    assert ["#", "no-file", "?", "?", "?", "?", "-"] in rows
    assert ["#", "no-daemon", "4", "4", "3", "3,", "?", "missing", "-"] in rows
    assert not (plugged.folder / "data").exists()


def test_credentials_are_told_by_name_and_never_by_value(program):
    done = program(
        *written(
            program,
            """
            defaults:
              benchmark: {id: jsonl, path: tasks.jsonl}
              harness: {id: openai_chat}
              model: {id: m, base_url: "http://127.0.0.1:9/v1"}
            requests:
              - {name: with-key, model: {api_key: "${KEY}"}}
              - {name: without}
            """,
        ),
        KEY="sk-verysecret",
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in comments(done)]
    assert ["#", "model.api_key", "${KEY}", "present", "with-key"] in rows
    assert ["#", "model.api_key", "none", "not", "given", "without"] in rows
    assert "sk-verysecret" not in done.stdout + done.stderr


def test_what_will_be_reused_is_told(program):
    assert program(*oracle("--run-id", "r1", "--progress", "none")).returncode == 0
    before = files(program)
    done = program(*oracle("--dry-run", "--reuse"))
    assert "# m_jsonl_oracle  4      4         0          -       4 of r1" in comments(done)
    done = program(*oracle("--dry-run", "--k", "2", "--reuse"))
    assert comments(done)[1].endswith("none found")
    done = program(*oracle("--dry-run", "--reuse=r2"))
    assert (done.returncode, comments(done)[1].split()[-1]) == (2, "?")
    assert "there is no run 'r2' to reuse" in done.stderr
    assert files(program) == before


def test_warnings_name_their_requests(program):
    done = program(
        *written(
            program,
            """
            runtime: {provider_limits: {host_process: 64}}
            defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}
            requests: [{name: one}, {name: two}, {name: three, execution: {k: 2}}]
            """,
        )
    )
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings[0].startswith("warning: one, two: evaluate the same thing")
    assert any("provider_limits.host_process limits nothing" in line for line in warnings)


def test_as_json_it_is_one_document_with_everything(plugged):
    done = plugged(
        *written(
            plugged,
            """
            defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}
            requests:
              - {name: one}
              - {name: two}
              - {name: bad, benchmark: {path: gone.jsonl}}
              - name: boxed
                benchmark: {id: "plugin:InImages", path: tasks.jsonl}
                environment: {id: "plugin:Images"}
            """,
        ),
        "--format",
        "json",
    )
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert [one["name"] for one in found["orchestration"]["requests"]] == [*found["requests"]]
    assert found["requests"]["one"]["tasks"] == 4
    (problem,) = found["requests"]["bad"]["problems"]
    assert problem["kind"] == "ConfigurationError"
    assert "gone.jsonl" in problem["message"]
    boxed = found["requests"]["boxed"]
    assert (boxed["images"], boxed["missing_images"]) == (
        ["org/one:1", "org/own:1", "org/two:1"],
        ["org/two:1"],
    )
    assert found["warnings"][0]["requests"] == ["one", "two"]
    assert found["problems"] == []


def test_only_some_requests_of_a_file_are_looked_at(program):
    done = program(
        *written(
            program,
            """
            defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}
            requests: [{name: one}, {name: two}, {name: three}]
            """,
        ),
        *("--only", "three", "--only", "one"),
    )
    assert [line.split()[1] for line in comments(done)[1:]] == ["one", "three"]


def test_many_images_are_cut_and_counted_for_people(tmp_path):
    images = tuple(f"org/task-{n}:1" for n in range(30))
    survey = Survey(request="one", is_reusing=False, images=images, missing_images=images[25:])
    made = orchestration(tmp_path, scripted_request())
    facts = "\n".join(_facts(made, Advice(cautions=(), credentials=()), [survey])).splitlines()
    assert facts[2:4] == ["images:", "  org/task-25:1  missing"]
    assert facts[-1] == "  and 10 more"
