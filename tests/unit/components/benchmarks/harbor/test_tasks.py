"""A directory of task directories is read, selected from, and known by its content."""

from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.harbor import tasks
from agentcompass.components.benchmarks.harbor.task_directory import HarborFormat
from agentcompass.errors import ConfigurationError, PreflightError
from support.harbor import TOML, harbor_task


def load(folder, notes=None, **selection):
    wanted = tasks.Wanted(
        where="bench",
        format_of=HarborFormat,
        selection=tasks.DirectorySelection(**selection),
        variables={},
    )
    note = (notes if notes is not None else []).append
    return tasks.load(folder, wanted, note=note, check=lambda: None)


def ids(contents):
    return [task.id for task in contents.tasks]


@pytest.fixture
def folder(tmp_path):
    for name, category, difficulty in (("b", "x", "easy"), ("a", "y", "hard"), ("c", "x", "hard")):
        metadata = f'[metadata]\ncategory = "{category}"\ndifficulty = "{difficulty}"\n'
        harbor_task(tmp_path, name, toml=TOML + metadata)
    (tmp_path / "README.md").write_text("no task")
    (tmp_path / "other").mkdir()
    return tmp_path


def test_tasks_are_the_directories_in_the_order_of_their_names(folder):
    contents = load(folder)
    assert ids(contents) == ["a", "b", "c"]
    assert contents.count == 3
    task = contents.tasks[0]
    assert task.category == "y"
    assert task.metadata["difficulty"] == "hard"
    assert task.evaluate_timeout_seconds > task.data.tests.timeout_seconds


def test_one_task_directory_is_a_directory_of_one_task(folder):
    assert ids(load(folder / "b")) == ["b"]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"sample_ids": ("c", "a")}, ["a", "c"]),
        ({"exclude_ids": ("a",)}, ["b", "c"]),
        ({"categories": ("x",)}, ["b", "c"]),
        ({"difficulties": ("hard",)}, ["a", "c"]),
        ({"categories": ("x",), "difficulties": ("hard",)}, ["c"]),
        ({"difficulties": ("hard",), "limit": 1}, ["a"]),
    ],
)
def test_parameters_select_tasks(folder, selection, expected):
    assert ids(load(folder, **selection)) == expected


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [
        ({"sample_ids": ("aa",)}, "bench: sample_ids: nothing is called 'aa' (did you mean 'a'?)"),
        ({"exclude_ids": ("zzz",)}, "bench: exclude_ids: nothing is called 'zzz' (there are 3)"),
        ({"categories": ("z",)}, "bench: categories: nothing is called 'z'"),
        ({"difficulties": ("harder",)}, "(did you mean 'hard'?)"),
    ],
)
def test_a_selection_of_what_is_not_there_is_an_error(folder, selection, sentence):
    with pytest.raises(ConfigurationError) as caught:
        load(folder, **selection)
    assert sentence in str(caught.value)


def test_all_broken_tasks_are_named_in_one_error(folder):
    (folder / "a" / "task.toml").write_text("[")
    (folder / "c" / "instruction.md").unlink()
    with pytest.raises(ConfigurationError) as caught:
        load(folder)
    assert "a/task.toml: is not valid TOML" in str(caught.value)
    assert "c/instruction.md: there is no such file" in str(caught.value)
    assert "leave them out with exclude_ids" in str(caught.value)


def test_broken_tasks_that_are_not_wanted_are_not_read(folder):
    (folder / "a" / "task.toml").write_text("[")
    assert ids(load(folder, exclude_ids=("a",))) == ["b", "c"]
    assert ids(load(folder, sample_ids=("b",))) == ["b"]


def test_an_unknown_field_is_told_once_for_all_tasks(folder):
    for name in "abc":
        path = folder / name / "task.toml"
        path.write_text("colour = 1\n" + path.read_text())
    notes = []
    load(folder, notes)
    assert notes == ["bench: unknown field colour (3 tasks: a, b, c)"]


def test_a_directory_without_tasks_says_where_they_are(tmp_path):
    harbor_task(tmp_path / "inner", "a")
    with pytest.raises(PreflightError) as caught:
        load(tmp_path)
    assert f"Did you mean {tmp_path / 'inner'}?" in str(caught.value)


def test_a_missing_directory_is_a_preflight_error(tmp_path):
    with pytest.raises(PreflightError, match="No such file"):
        load(tmp_path / "nowhere")


def test_the_version_is_that_of_all_content_and_no_more(folder, tmp_path_factory):
    version = load(folder).version
    assert version.startswith("sha256:")
    assert load(folder, sample_ids=("b",)).version == version
    (folder / "README.md").write_text("changed")
    assert load(folder).version == version


@pytest.mark.parametrize(
    "change",
    [
        lambda task: (task / "tests" / "test.sh").write_text("other"),
        lambda task: (task / "tests" / "test.sh").chmod(0o755),
        lambda task: (task / "new").write_text(""),
        lambda task: (task / "link").symlink_to("task.toml"),
        lambda task: (task / "solution" / "solve.sh").rename(task / "solution" / "solved.sh"),
    ],
    ids=["content", "mode", "file", "link", "name"],
)
def test_any_change_of_a_task_is_another_version(folder, change):
    before = load(folder).version
    change(folder / "c")
    assert load(folder).version != before
