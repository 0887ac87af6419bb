"""Harbor registries: lists of tasks that are directories of git repositories."""

import json

import pytest

from agentcompass.datasets import RegistrySource
from agentcompass.datasets.registry import newest
from agentcompass.errors import ConfigurationError, PreflightError
from support.hub import content_of
from support.loopback import Given, serving

TASKS = {"tasks/one/task.toml": b"1", "tasks/two/task.toml": b"2"}


@pytest.fixture
def entries():
    return []


@pytest.fixture
def registry(entries):
    def answer(asked):
        if asked.path != "/registry.json":
            return Given(status=404)
        return Given(body=json.dumps(entries).encode())

    with serving(answer) as server:
        yield server


@pytest.fixture
def source(registry):
    def source(version=None, name="bench"):
        return RegistrySource(url=f"{registry.url}/registry.json", name=name, version=version)

    return source


def task(git_server, name, commit, path, repository="tasks"):
    url = git_server.url(repository)
    return {"name": name, "git_url": url, "git_commit_id": commit, "path": path}


def entry(*tasks, version="1.0", name="bench"):
    return {"name": name, "version": version, "description": "", "tasks": list(tasks)}


async def test_each_task_becomes_a_directory_with_its_name(
    git_server, entries, registry, source, get
):
    commit, other = git_server.add("tasks", TASKS), git_server.add("more", {"x/task.toml": b"x"})
    entries.append(
        entry(
            task(git_server, "one", commit, "tasks/one"),
            task(git_server, "org/two", commit, "tasks/two"),
            task(git_server, "again", commit, "tasks/two"),
            task(git_server, "x", other, "x", "more"),
        )
    )
    obtained = await get(source())
    assert content_of(obtained.directory) == {
        "one/task.toml": b"1",
        "org__two/task.toml": b"2",
        "again/task.toml": b"2",
        "x/task.toml": b"x",
    }
    assert obtained.revision.startswith("1.0-")
    first = len(git_server.server.asked), len(registry.asked)
    assert await get(source()) == obtained
    assert (len(git_server.server.asked), len(registry.asked)) == first


async def test_one_repository_is_fetched_once_however_many_tasks_it_has(
    git_server, entries, source, get
):
    tasks = {f"tasks/t{number}/task.toml": b"%d" % number for number in range(20)}
    commit = git_server.add("tasks", tasks)
    entries.append(entry(*(task(git_server, f"t{n}", commit, f"tasks/t{n}") for n in range(20))))
    obtained = await get(source())
    assert len(content_of(obtained.directory)) == 20
    assert len(git_server.server.asked) <= 8


async def test_another_list_of_tasks_is_another_revision(
    git_server, entries, source, get, tmp_path
):
    commit = git_server.add("tasks", TASKS)
    entries.append(entry(task(git_server, "one", commit, "tasks/one")))
    first = await get(source())
    entries[0] = entry(task(git_server, "one", commit, "tasks/two"))
    assert (await get(source())).revision == first.revision
    assert (await get(source(), data_dir=tmp_path / "anew")).revision != first.revision


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["1.0", "head", "2.0"], "head"),
        (["2.0", "10.1", "9.9.9"], "10.1"),
        (["beta", "alpha"], "beta"),
        (["2.0", "2.1-rc1", "2.1"], "2.1-rc1"),
    ],
)
def test_without_a_version_the_newest_is_taken(versions, expected):
    assert newest(versions) == expected


async def test_a_named_version_is_taken(git_server, entries, source, get):
    commit = git_server.add("tasks", TASKS)
    entries += [
        entry(task(git_server, "one", commit, "tasks/one"), version="1.0"),
        entry(task(git_server, "two", commit, "tasks/two"), version="2.0"),
    ]
    assert list(content_of((await get(source("1.0"))).directory)) == ["one/task.toml"]
    assert list(content_of((await get(source())).directory)) == ["two/task.toml"]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ({"name": "bemch"}, r"has no data set 'bench' \(did you mean 'bemch'\?\)"),
        ({"version": "2.0"}, "has no version '1.0' of bench"),
        ({"tasks": []}, "lists no tasks"),
        ({"tasks": [{"name": "../x", "git_url": "https://h/x", "path": "a"}]}, "cannot be used"),
        ({"tasks": [{"name": "x", "git_url": "https://h/x", "path": "../a"}]}, "cannot be used"),
        ({"tasks": [{"name": "x", "git_url": "ext::sh", "path": "a"}]}, "is no URL"),
        ({"tasks": [{"name": "x", "path": "local"}]}, "is no URL"),
        ({"tasks": ["x"]}, "cannot be used"),
    ],
)
async def test_what_cannot_be_used_is_told(entries, source, get, listed, words):
    entries.append({"name": "bench", "version": "1.0", "tasks": [], **listed})
    with pytest.raises(PreflightError, match=words):
        await get(source("1.0"))


async def test_two_tasks_that_would_share_a_directory_are_refused(entries, source, get):
    row = {"git_url": "https://h/x", "git_commit_id": "a" * 40, "path": "p"}
    entries.append(entry({**row, "name": "A/b"}, {**row, "name": "a__b"}))
    with pytest.raises(PreflightError, match="two tasks named 'a__b'"):
        await get(source())


async def test_what_is_no_registry_is_told(registry, source, get):
    with pytest.raises(PreflightError, match="answered 404"):
        await get(RegistrySource(url=f"{registry.url}/other.json", name="x"))
    registry.fail("/registry.json", Given(body=b"<html>"), Given(body=b"{}"))
    with pytest.raises(PreflightError, match="is no JSON"):
        await get(source())
    with pytest.raises(PreflightError, match="is no registry"):
        await get(source())


def test_a_url_of_another_kind_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="is no http or https URL"):
        RegistrySource(url="file:///registry.json", name="x")
