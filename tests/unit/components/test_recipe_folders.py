from __future__ import annotations

import textwrap

import pytest

from agentcompass.components.registry import BUILTINS, known, load_recipe_dirs
from agentcompass.errors import ConfigurationError

RECIPE = """
    from agentcompass.components.base import NoParams, Recipe
    from agentcompass.components.registry import register

    @register
    class Mine(Recipe[NoParams]):
        id = "{id}"
        description = "{id}, as tested"

        def matches(self, request):
            return True
"""


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return folder


def test_a_folder_of_modules_gives_its_recipes(tmp_path):
    write(tmp_path, one=RECIPE.format(id="one"), two=RECIPE.format(id="two"), _skipped="1 / 0")
    assert list(load_recipe_dirs([tmp_path])) == ["one", "two"]


def test_a_package_gives_what_its_init_imports(tmp_path):
    write(
        tmp_path / "acme",
        __init__="from . import inner",
        inner="from .shared import ID\n"
        + textwrap.dedent(RECIPE).replace('"{id}"\n    desc', "ID\n    desc"),
        shared="ID = 'shared-id'",
    )
    assert list(load_recipe_dirs([tmp_path / "acme"])) == ["shared-id"]


def test_recipes_of_a_folder_belong_to_the_run_that_named_it(tmp_path):
    write(tmp_path, one=RECIPE.format(id="private"))
    load_recipe_dirs([tmp_path])
    assert "private" not in known("recipe")


def test_a_changed_file_counts_the_next_time(tmp_path):
    write(tmp_path, one=RECIPE.format(id="before"))
    assert list(load_recipe_dirs([tmp_path])) == ["before"]
    write(tmp_path, one=RECIPE.format(id="afterwards"))
    assert list(load_recipe_dirs([tmp_path])) == ["afterwards"]


def test_a_folder_named_twice_is_loaded_once(tmp_path):
    write(tmp_path, one=RECIPE.format(id="once"))
    assert list(load_recipe_dirs([tmp_path, tmp_path / "."])) == ["once"]


def test_a_module_that_another_one_imports_is_executed_once(tmp_path):
    log = tmp_path / "log"
    count = f"with open({str(log)!r}, 'a') as file: file.write('b')\n"
    write(tmp_path, a="from . import b\n" + textwrap.dedent(RECIPE.format(id="a")))
    write(tmp_path, b=count + textwrap.dedent(RECIPE.format(id="b")))
    assert sorted(load_recipe_dirs([tmp_path])) == ["a", "b"]
    assert log.read_text() == "b"


def test_an_id_of_a_built_in_recipe_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(BUILTINS["recipe"], "taken", "somewhere:Taken")
    write(tmp_path, one=RECIPE.format(id="taken"))
    with pytest.raises(ConfigurationError, match="'taken' is the id of a built-in recipe"):
        load_recipe_dirs([tmp_path])


def test_two_folders_with_one_id_are_an_error_that_names_both(tmp_path):
    first = write(tmp_path / "first", one=RECIPE.format(id="twin"))
    second = write(tmp_path / "second", one=RECIPE.format(id="twin"))
    with pytest.raises(ConfigurationError) as caught:
        load_recipe_dirs([first, second])
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param("raise SystemExit", r"broken\.py cannot be imported: SystemExit", id="exits"),
        pytest.param("1 / 0", "ZeroDivisionError", id="raises"),
        pytest.param("x = 1", "registers no recipe", id="registers nothing"),
        pytest.param(
            """
            from agentcompass.components.base import Harness
            from agentcompass.components.registry import register

            @register
            class Mine(Harness):
                id = "h"

                async def run(self, *args): ...
            """,
            "registers recipes only",
            id="registers a harness",
        ),
    ],
)
def test_a_broken_folder_is_named_with_its_cause(tmp_path, source, words):
    write(tmp_path, broken=source)
    with pytest.raises(ConfigurationError, match=words):
        load_recipe_dirs([tmp_path])


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="is no folder"):
        load_recipe_dirs([tmp_path / "nowhere"])
