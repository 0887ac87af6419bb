"""Where the tasks of `harbor` and of Terminal-Bench come from."""

from __future__ import annotations

import subprocess

import pytest

from agentcompass.components.base import SandboxPlan
from agentcompass.components.benchmarks.harbor.benchmark import Harbor
from agentcompass.components.benchmarks.harbor.terminal_bench import (
    TerminalBench,
    TerminalBench2,
    TerminalBench2Verified,
    TerminalBench21,
    TerminalBenchCore,
)
from agentcompass.datasets import GitSource
from agentcompass.datasets.sources import is_commit
from agentcompass.errors import ConfigurationError, PreflightError
from agentcompass.secrets import Secret
from support.components import context, make
from support.harbor import TOML, harbor_task

ALL = (TerminalBench2, TerminalBench21, TerminalBench2Verified, TerminalBenchCore)


@pytest.fixture
def repository(tmp_path):
    """A git repository with a directory of tasks, and the id of its first commit; the second has one task more."""

    def git(*words):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    folder = tmp_path / "repository"
    harbor_task(folder / "tasks", "a")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    first = git("rev-parse", "HEAD")
    harbor_task(folder / "tasks", "b")
    git("add", "-A")
    git("commit", "-q", "-m", "two")
    return folder.as_uri(), first


async def load(benchmark, data_dir, **fields):
    return [task.id for task in await benchmark.load_tasks(context(data_dir, **fields))]


async def test_tasks_of_a_directory(tmp_path):
    harbor_task(tmp_path, "a")
    benchmark = make(Harbor, path=str(tmp_path))
    assert await load(benchmark, tmp_path / "data") == ["a"]
    assert benchmark.dataset_version().startswith("sha256:")
    assert not (tmp_path / "data").exists()


async def test_tasks_of_a_revision_of_a_git_repository(tmp_path, repository):
    url, first = repository
    at_first = make(Harbor, git=url, revision=first, subdirectory="tasks")
    at_main = make(Harbor, git=url, revision="main", subdirectory="tasks")
    assert await load(at_first, tmp_path / "data") == ["a"]
    assert await load(at_main, tmp_path / "data") == ["a", "b"]
    assert at_first.dataset_version() != at_main.dataset_version()


async def test_the_same_content_is_the_same_version_wherever_it_is_from(tmp_path, repository):
    url, first = repository
    cloned = make(Harbor, git=url, revision=first, subdirectory="tasks")
    await load(cloned, tmp_path / "data")
    harbor_task(tmp_path / "here", "a")
    local = make(Harbor, path=str(tmp_path / "here"))
    await load(local, tmp_path / "data")
    assert local.dataset_version() == cloned.dataset_version()


async def test_nothing_is_downloaded_where_that_is_not_allowed(tmp_path, repository):
    url, first = repository
    benchmark = make(Harbor, git=url, revision=first, subdirectory="tasks")
    with pytest.raises(PreflightError, match="prefetch harbor"):
        await load(benchmark, tmp_path / "data", may_download=False)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "does not say where the tasks are"),
        ({"path": "x", "git": "https://x"}, "has path and git"),
        ({"git": "https://x"}, "git needs a revision"),
        ({"hub": "a/b"}, "hub needs a revision"),
        ({"path": "x", "revision": "main"}, "path takes no revision"),
        ({"git": "x", "revision": "main"}, "is no URL of a git repository"),
        ({"hub": "a b", "revision": "main"}, "is no name of a repository"),
        ({"dataset": "x", "registry": "file:///x"}, "is no http or https URL"),
        ({"git": "https://x", "revision": "main", "subdirectory": "../x"}, "nowhere but down"),
    ],
)
def test_one_source_is_given_and_whole(params, sentence):
    with pytest.raises(ConfigurationError) as caught:
        make(Harbor, **params)
    assert sentence in str(caught.value)


def test_variables_of_tasks_are_secret():
    benchmark = make(Harbor, path="x", variables={"KEY": "value-of-the-key"})
    assert isinstance(benchmark.params.variables["KEY"], Secret)
    assert "value-of-the-key" not in repr(benchmark.params)


async def test_what_a_recipe_or_a_caller_planned_is_kept(tmp_path):
    harbor_task(tmp_path, "a", toml=TOML + 'env = { A = "task" }\n')
    benchmark = make(Harbor, path=str(tmp_path))
    (task,) = await benchmark.load_tasks(context(tmp_path))
    plan = benchmark.plan(task, SandboxPlan(env={"A": "plan", "B": "plan"}))
    assert plan.env == {"A": "task", "B": "plan"}
    assert plan.image == "image"


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.id)
def test_published_data_sets_are_pinned_to_a_commit(cls):
    assert is_commit(cls.source.revision)
    (primary,) = [metric for metric in cls.metrics if metric.primary]
    assert (primary.name, primary.kind) == ("resolved", "binary")


async def test_local_tasks_take_the_place_of_the_published_ones(tmp_path):
    harbor_task(tmp_path, "a")
    notes = []
    benchmark = make(TerminalBench21, dataset_path=str(tmp_path))
    assert await load(benchmark, tmp_path / "data", note=notes.append) == ["a"]
    assert notes == [f"terminal_bench_2_1: {tmp_path} has 1 task; the published data set has 89"]


def published(url, revision, only=None):
    """A data set like Terminal-Bench's, published in a repository."""

    class Published(TerminalBench):
        id = "published"
        source = GitSource(url=url, revision=revision, path="tasks")
        count = 1

    Published.only = only
    return Published


async def test_the_published_tasks_of_a_data_set_are_fetched_once(tmp_path, repository):
    cls = published(*repository)
    notes = []
    assert await load(make(cls), tmp_path / "data", note=notes.append) == ["a"]
    assert await load(make(cls), tmp_path / "data", may_download=False) == ["a"]
    assert await load(make(cls, revision="main"), tmp_path / "data") == ["a", "b"]
    assert not any("the published data set has" in note for note in notes)


async def test_what_is_published_beside_a_data_set_does_not_count(tmp_path, repository):
    cls = published(repository[0], "main", frozenset({"b"}))
    assert await load(make(cls), tmp_path / "data") == ["b"]


def test_the_first_generation_has_its_own_tasks():
    assert len(TerminalBenchCore.only) == TerminalBenchCore.count == 80
