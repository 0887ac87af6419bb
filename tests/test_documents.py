"""What stands in README.md and docs/ is true: its programs run, its files resolve, its links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcompass.options import LaunchOptions
from agentcompass.plan.resolve import resolve_launch
from support.scripts import ENVIRONMENT

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md")]
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(name, kind):
    text = (ROOT / name).read_text(encoding="utf-8")
    return [body for language, body in FENCE.findall(text) if language == kind]


PROGRAMS = [
    pytest.param(body, id=f"{name} {n}")
    for name in ("README.md", "docs/index.md", "docs/python.md")
    for n, body in enumerate(_blocks(name, "python"), 1)
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_run_as_they_stand(program, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "1.0" in ended.stdout or "completed" in ended.stdout


def test_the_orchestration_of_the_readme_resolves(tmp_path):
    (yaml,) = _blocks("README.md", "yaml")
    lines = _blocks("README.md", "json")[0]
    (tmp_path / "questions.jsonl").write_text(lines)
    file = tmp_path / "evaluations.yaml"
    file.write_text(yaml)
    orchestration = resolve_launch(
        file,
        LaunchOptions(),
        cwd=tmp_path,
        environ={"OPENAI_API_KEY": "a-secret-key", "HOME": str(tmp_path)},
        now=datetime(2026, 3, 1, tzinfo=UTC),
        random_suffix="abc",
    )
    assert [request.name for request in orchestration.requests] == ["humaneval", "capitals"]


def test_the_lines_of_the_readmes_questions_are_json_each():
    for line in _blocks("README.md", "json")[0].splitlines():
        assert {"id", "prompt", "answer"} == set(json.loads(line))


def test_the_readme_begins_with_the_commands_that_need_nothing_else():
    evaluation, tests, local = _blocks("README.md", "sh")[:3]
    for command in (evaluation, tests):
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv ")
    assert evaluation.rstrip().endswith("agentcompass run humaneval oracle none")
    assert tests.rstrip().endswith("-m pytest")
    # e2e/test_local_model.py runs it
    assert local.startswith("python3 -m venv ")
    assert "agentcompass run humaneval openai_chat local/" in local


@pytest.mark.parametrize("command", _blocks("README.md", "sh")[3:], ids=lambda c: c.split()[0])
def test_the_other_commands_are_ones_the_command_line_takes(command, tmp_path):
    (tmp_path / "questions.jsonl").write_text(_blocks("README.md", "json")[0])
    line = command.replace("\\\n", " ").replace("export OPENAI_API_KEY=...\n", "")
    words = [word for word in shlex.split(line) if word != "--reuse"]
    ended = subprocess.run(
        [sys.executable, "-m", "agentcompass.cli", *words[1:], "--dry-run"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "OPENAI_API_KEY": "a-secret-key"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode != 2, ended.stderr
    assert "a-secret-key" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(document):
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_index_leads_to_every_document():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    names = {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"}
    assert {name for name in names if f"({name})" not in index} == set()


def test_the_tutorial_works_as_it_stands(tmp_path):
    commands = "\n".join(_blocks("docs/tutorial.md", "sh"))
    bin_dir = str(Path(sys.executable).parent)
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PATH": f"{bin_dir}:{ENVIRONMENT['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "refused" in ended.stdout
    assert "3 of" in ended.stdout or "reused" in ended.stdout
    for name in ("ceiling", "floor"):
        assert list((tmp_path / "results" / name).glob("*/metrics.json"))
