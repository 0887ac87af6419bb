"""What stands in README.md and docs/ is true: its programs run, its files resolve, its links lead somewhere, and what is
generated from the code is what the code says. The how-to pages have test_guides.py."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from agentcompass.cli.app import COMMANDS as cli_commands
from agentcompass.cli.app import build
from agentcompass.cli.help import with_pages
from agentcompass.cli.reference import SECTIONS
from agentcompass.cli.reference_files import METRICS_FILE, OBJECTS
from agentcompass.components.registry import BUILTINS, load
from agentcompass.options import LaunchOptions
from agentcompass.plan.resolve import resolve_launch
from agentcompass.store.layout import RunPaths
from support.scripts import ENVIRONMENT

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md")]
)
PAGES = sorted(ROOT.glob("docs/*.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def _blocks(name, kind):
    return [body for language, body in FENCE.findall(_text(name)) if language == kind]


def _command_lines(path):
    """Every line with a command of ours, in any block for a shell, up to where the shell does something with it."""
    fence = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    text = "\n".join(map(textwrap.dedent, fence.findall(path.read_text(encoding="utf-8"))))
    for line in text.replace("\\\n", " ").splitlines():
        found = re.search(r"(?:^|&& (?:\S*/)?|^\$ )agentcompass (.*)", line)
        if found:
            yield "agentcompass " + re.split(r" (?:>|\|\||\||&&) ?", found[1])[0]


PROGRAMS = [
    pytest.param(body, id=f"{name} {n}")
    for name in (
        "README.md",
        "docs/index.md",
        "docs/python.md",
        "docs/asyncio.md",
        "docs/orchestrations.md",
    )
    for n, body in enumerate(_blocks(name, "python"), 1)
    if not body.startswith('"""')  # a file, not a program
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


def test_the_orchestrations_of_the_guide_resolve_to_what_it_says(tmp_path):
    text = '{"id": 1, "prompt": "p", "answer": "a"}\n'
    for name in ("questions", "sums", "words"):
        (tmp_path / f"{name}.jsonl").write_text(text)
    resolved = []
    for yaml in _blocks("docs/orchestrations.md", "yaml"):
        file = tmp_path / "file.yaml"
        file.write_text(yaml)
        orchestration = resolve_launch(
            file,
            LaunchOptions(),
            cwd=tmp_path,
            environ={"MODEL_BASE_URL": "http://127.0.0.1:9/v1", "MODEL_API_KEY": "a-secret-key"},
            now=datetime(2026, 3, 1, tzinfo=UTC),
            random_suffix="abc",
        )
        resolved.append(orchestration.requests)
    (code, questions), matrix = resolved
    assert (code.name, code.execution.k, code.weight) == ("code", 1, 1.0)
    assert (questions.model.params, questions.execution.k, questions.weight) == (
        {"temperature": 0}, 4, 2.0,
    )  # fmt: skip
    assert f"These are {len(matrix)} requests" in _text("docs/orchestrations.md")
    assert "small-code-openai_chat" in {request.name for request in matrix}
    assert {request.execution.k for request in matrix} == {2}


def test_the_lines_of_the_readmes_questions_are_json_each():
    for line in _blocks("README.md", "json")[0].splitlines():
        assert {"id", "prompt", "answer"} == set(json.loads(line))


def test_the_readme_begins_with_the_commands_that_need_nothing_else():
    evaluation, tests, local = _blocks("README.md", "sh")[:3]
    for command in (evaluation, tests):
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv ")
    assert evaluation.rstrip().endswith("agentcompass run humaneval oracle none")
    assert tests.rstrip().endswith("-m pytest -n 3")
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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_is_generated_from_the_code_is_what_the_code_says(page):
    text = page.read_text(encoding="utf-8")
    assert text == with_pages(text), "just reference"


def test_the_reference_has_every_section_file_and_built_in_component():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    wanted = [f"<!-- keys: {section} -->" for section in SECTIONS]
    wanted += [f"<!-- fields: {name} -->" for name in (*OBJECTS, METRICS_FILE)]
    wanted += [f"<!-- {kind}: -->" for kind in ("arguments", "exceptions", "exit-codes")]
    for kind, builtins in BUILTINS.items():
        if f"<!-- params: {kind} -->" not in text:
            named = [name for name in builtins if attrs.fields(load(kind, name).Params)]
            wanted += [f"<!-- params: {kind} {name} -->" for name in named]
    assert [block for block in wanted if block not in text] == []


def test_the_results_page_shows_every_file_of_a_run():
    (tree,) = re.findall(
        r"^```\n(<results_dir>.*?)^```$", _text("docs/results.md"), re.MULTILINE | re.DOTALL
    )
    files = [name for name, of in vars(RunPaths).items() if isinstance(of, property)]
    names = [getattr(RunPaths(Path()), name).name for name in files]
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", tree)] == []


def test_every_code_of_a_failure_is_explained():
    codes = set()
    for path in (ROOT / "agentcompass").rglob("*.py"):
        if path.parent.name == "containers" and "docker" not in BUILTINS["environment"]:
            continue  # nobody meets them yet
        source = path.read_text(encoding="utf-8")
        codes |= set(re.findall(r'\b(?:code=|default_code: ClassVar\[str\] = )"([a-z-]+)"', source))
        if path.name == "failures.py":
            codes |= set(re.findall(r'return \(?\s*"([a-z-]+)", ?\s*(?:True|False)', source))
    assert len(codes) > 40
    text = "".join(map(_text, ("docs/errors.md", "docs/environments.md", "docs/testing.md")))
    assert sorted(code for code in codes if f"`{code}`" not in text) == []


def test_the_help_of_every_command_is_in_the_reference():
    text = _text("docs/cli.md")
    assert [name for name, *_ in cli_commands if f"<!-- help: {name}" not in text] == []


COMMANDS = [
    pytest.param(line, id=f"{path.name} {n}")
    for path in DOCUMENTS
    for n, line in enumerate(_command_lines(path))
]


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_in_a_block_is_one_the_command_line_takes(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.json").write_text("{}")
    build().parse_args(shlex.split(line, comments=True)[1:])


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
