"""Which configuration files are read, in which order, and what is wrong with them."""

from pathlib import Path

import pytest

from agentcompass.plan import config_files
from agentcompass.plan.resolve import configured_runtime
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from support.configured import HARNESS
from support.resolving import problems_of, run


def _load(cwd, environ=None, named=None):
    problems = Problems()
    environ = environ or {}
    found = config_files.load(
        named, cwd=cwd, environ=environ, references=References(environ), problems=problems
    )
    return found, [str(problem) for problem in problems]


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _k(n):
    return f"execution: {{k: {n}}}\n"


@pytest.fixture
def project(tmp_path):
    """A working directory two levels below a repository's root."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    cwd = tmp_path / "repo" / "a" / "b"
    cwd.mkdir(parents=True)
    return cwd


def test_without_files_nothing_is_read(tmp_path):
    found, problems = _load(tmp_path, {"HOME": str(tmp_path)})
    assert (found.files, found.root, problems) == ((), None, [])


def test_later_files_win_and_all_are_merged(project, tmp_path):
    home = tmp_path / "home"
    _write(home / ".config/agentcompass/config.yaml", "execution: {k: 1, max_retries: 9}\n")
    _write(project.parent / "agentcompass.yaml", _k(2))
    named = [_write(project / "c1.yaml", _k(3)), Path("c2.yaml")]
    _write(project / "c2.yaml", _k(4))
    environ = {"HOME": str(home)}
    found, problems = _load(project, environ, named)
    assert problems == []
    assert found.files == (
        str(home / ".config/agentcompass/config.yaml"),
        str(project.parent / "agentcompass.yaml"),
        "c1.yaml",
        "c2.yaml",
    )
    execution = run(project, environ, config_path=named).requests[0].execution
    assert (execution.k, execution.max_retries) == (4, 9)


def test_the_base_directory_variable_is_honoured_if_absolute(tmp_path):
    home, other = tmp_path / "home", tmp_path / "xdg"
    _write(home / ".config/agentcompass/config.yaml", _k(1))
    _write(other / "agentcompass/config.yaml", _k(2))
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    found, _ = _load(cwd, {"HOME": str(home), "XDG_CONFIG_HOME": str(other)})
    assert found.files == (str(other / "agentcompass/config.yaml"),)
    found, _ = _load(cwd, {"HOME": str(home), "XDG_CONFIG_HOME": "relative"})
    assert found.files == (str(home / ".config/agentcompass/config.yaml"),)


def test_the_nearest_project_file_counts_alone(project):
    _write(project / "agentcompass.yaml", _k(2))
    _write(project.parents[1] / "agentcompass.yaml", "broken: true\n")
    assert _load(project)[0].files == ("agentcompass.yaml",)


def test_the_file_beside_the_repository_is_found_but_none_beyond_it(project):
    _write(project.parents[2] / "agentcompass.yaml", "broken: true\n")
    assert _load(project)[0].files == ()
    _write(project.parents[1] / "agentcompass.yaml", _k(2))
    assert len(_load(project)[0].files) == 1


def test_outside_a_repository_only_the_working_directory_counts(tmp_path):
    cwd = tmp_path / "a"
    cwd.mkdir()
    _write(tmp_path / "agentcompass.yaml", "broken: true\n")
    assert _load(cwd)[0].files == ()
    _write(cwd / "agentcompass.yaml", _k(2))
    assert _load(cwd)[0].files == ("agentcompass.yaml",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("execution:\n  max_retrys: 3\n", "c.yaml:2:3: execution.max_retrys: unknown key (did you mean 'max_retries'?)"),
        ("exection: {}\n", "c.yaml:1:1: exection: unknown key (did you mean 'execution'?)"),
        ("execution: [1]\n", "c.yaml:1:12: execution: must be a mapping, not a list"),
        ("execution: {k: 0}\n", "c.yaml:1:16: execution.k: must be at least 1, not 0"),
        ("execution: {task_concurrency: 3}\n", "c.yaml:1:13: execution.task_concurrency: belongs to `runtime`"),
        ("runtime: {reuse: true}\n", "c.yaml:1:11: runtime.reuse: belongs to requests"),
        ("runtime: {progress: fancy}\n", "c.yaml:1:21: runtime.progress: must be one of auto, plain, none"),
        ("benchmarks: {humanevl: {limit: 3}}\n", "benchmarks.humanevl: unknown benchmark 'humanevl' (did you mean 'humaneval'?)"),
        ("benchmarks: {humaneval: {params: {limit: 3}}}\n", "benchmarks.humaneval.params: component sections are flat"),
        ("benchmarks: {humaneval: {id: x}}\n", "benchmarks.humaneval.id: the id is the key above it"),
        ("benchmarks: {humaneval: {limt: 3}}\n", "c.yaml:1:26: benchmarks.humaneval.limt: unknown key (did you mean 'limit'?)"),
        ("harnesses: {openai_chat: 3}\n", "harnesses.openai_chat: must be a mapping"),
        ("prices: {m: {inptu: 1}}\n", "c.yaml:1:14: prices.m.inptu: unknown key (did you mean 'input'?)"),
        ("prices: {m: {input: -1}}\n", "prices.m.input: must be at least 0, not -1"),
        ("prices: {m: 3}\n", "prices.m: must be a mapping"),
        ("- a\n", "c.yaml:1:1: must be a mapping at the top, not a list"),
    ],
)  # fmt: skip
def test_a_wrong_config_file_names_file_line_and_key(tmp_path, text, problem):
    _write(tmp_path / "c.yaml", text)
    lines = problems_of(run, tmp_path, config_path="c.yaml")
    assert len(lines) == 1, lines
    assert problem in lines[0]


def test_a_named_file_must_be_a_file(tmp_path):
    lines = problems_of(run, tmp_path, config_path=["none.yaml", tmp_path])
    assert lines == ["none.yaml: there is no such file", ".: is a directory, not a file"]


def test_keys_for_anchors_and_empty_sections_are_fine(tmp_path):
    _write(tmp_path / "c.yaml", "x-a: &a {k: 2}\nexecution: *a\nruntime:\nbenchmarks:\n")
    assert run(tmp_path, config_path="c.yaml").requests[0].execution.k == 2


def test_components_get_the_section_of_their_own_id_import_paths_included(tmp_path):
    _write(
        tmp_path / "c.yaml",
        f"benchmarks: {{humaneval: {{limit: 5}}, jsonl: {{limit: 9}}}}\nharnesses: {{'{HARNESS}': {{max_turns: 4}}}}\n",
    )
    request = run(tmp_path, config_path="c.yaml", harness=HARNESS).requests[0]
    assert request.benchmark.params.limit == 5
    assert request.harness.params.max_turns == 4
    request = run(tmp_path, config_path="c.yaml", benchmark_params={"limit": 6}).requests[0]
    assert request.benchmark.params.limit == 6


def test_what_files_say_of_directories_counts_for_commands_without_an_evaluation_too(tmp_path):
    _write(
        tmp_path / "agentcompass.yaml", "runtime: {results_dir: ~/out, data_dir: '${SCRATCH}'}\n"
    )
    runtime = configured_runtime(cwd=tmp_path, environ={"HOME": "/home/me", "SCRATCH": "d"})
    assert (runtime.results_dir, runtime.data_dir) == (Path("/home/me/out"), tmp_path / "d")
    _write(tmp_path / "agentcompass.yaml", "runtime: {results_dirr: x}\n")
    (line,) = problems_of(configured_runtime, cwd=tmp_path, environ={})
    assert line.startswith("agentcompass.yaml:1:11: runtime.results_dirr: unknown key")


def test_prices_and_the_names_of_read_files_reach_the_orchestration(tmp_path):
    _write(tmp_path / "c.yaml", "prices: {'gpt-*': {input: 2, output: 3.5}}\n")
    orchestration = run(tmp_path, config_path="c.yaml")
    assert orchestration.prices == {"gpt-*": {"input": 2.0, "output": 3.5}}
    assert orchestration.notes == ("configuration file read: c.yaml",)


def test_an_unset_variable_in_a_section_nobody_uses_is_no_problem(tmp_path):
    _write(tmp_path / "c.yaml", "benchmarks: {jsonl: {path: '${AC_SURELY_UNSET}'}}\n")
    assert run(tmp_path, config_path="c.yaml").requests


def test_an_unset_variable_that_is_overridden_is_no_problem(tmp_path):
    _write(tmp_path / "c.yaml", "runtime: {results_dir: '${AC_SURELY_UNSET}'}\n")
    assert (
        run(tmp_path, config_path="c.yaml", results_dir="r").runtime.results_dir == tmp_path / "r"
    )
    lines = problems_of(run, tmp_path, config_path="c.yaml")
    assert lines == [
        "c.yaml:1:24: runtime.results_dir: the environment variable 'AC_SURELY_UNSET' is not set"
    ]


@pytest.mark.parametrize("named", [5, b"x", [5], ["c.yaml", None], {"a": 1}, object])
def test_what_is_no_path_is_refused_as_one(tmp_path, named):
    (tmp_path / "c.yaml").write_text("")
    (line,) = problems_of(run, tmp_path, config_path=named)
    assert line.startswith("argument config_path: must be a path or a list of paths, not ")
