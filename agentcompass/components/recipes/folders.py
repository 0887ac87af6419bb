"""Recipes from folders that a run names (`recipe_dirs`).

They belong to that run: another evaluation in the same process does not see them, and a changed file counts
from the next run on.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from agentcompass.components.base import Recipe
from agentcompass.components.registry import BUILTINS, RECIPE_DIR_PREFIX, take_recipes
from agentcompass.errors import ConfigurationError

_numbers: Final = itertools.count(1)


def load_recipe_dirs(paths: Sequence[Path]) -> Mapping[str, type[Recipe[Any]]]:
    """Import folders and return the recipes that they mark with `@register`, by id.

    A folder with `__init__.py` is imported as a package, whose `__init__` imports the modules that register
    something (relatively: `from . import mine`); of any other folder every `*.py` file is imported whose name
    does not begin with `_`.

    Raises:
        ConfigurationError: There is no such folder, it cannot be imported, registers no recipe or something
            else, or two recipes have one id.
    """
    recipes: dict[str, type[Recipe[Any]]] = {}
    homes: dict[str, Path] = {}
    for folder in dict.fromkeys(path.expanduser().resolve() for path in paths):
        for recipe in _recipes_of(folder):
            if recipe.id in BUILTINS["recipe"]:
                raise ConfigurationError(f"{folder}: {recipe.id!r} is the id of a built-in recipe")
            if recipe.id in recipes:
                raise ConfigurationError(
                    f"two recipes have the id {recipe.id!r}: {recipes[recipe.id].__qualname__} of "
                    f"{homes[recipe.id]} and {recipe.__qualname__} of {folder}"
                )
            recipes[recipe.id], homes[recipe.id] = recipe, folder
    return recipes


def _recipes_of(folder: Path) -> tuple[type[Recipe[Any]], ...]:
    if not folder.is_dir():
        raise ConfigurationError(f"recipe_dirs: {folder} is no folder")
    package = f"{RECIPE_DIR_PREFIX}{next(_numbers)}"
    found: list[type[Recipe[Any]]] = []
    for name, file in _modules_of(folder, package):
        _execute(name, file, folder if name == package else None)
        found += take_recipes(package)
    if not found:
        raise ConfigurationError(
            f"recipe_dirs: {folder} registers no recipe",
            hint="Mark a subclass of Recipe with @register in a module of this folder.",
        )
    return tuple(found)


def _modules_of(folder: Path, package: str) -> Iterator[tuple[str, Path]]:
    init = folder / "__init__.py"
    if init.is_file():
        yield package, init
        return
    namespace = ModuleType(package)
    namespace.__path__ = [str(folder)]
    sys.modules[package] = namespace
    for file in sorted(folder.glob("*.py")):
        if not file.name.startswith("_"):
            yield f"{package}.{file.stem}", file


def _execute(name: str, file: Path, package_dir: Path | None) -> None:
    locations = [str(package_dir)] if package_dir else None
    if name in sys.modules:  # another one has imported it
        return
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=locations)
    assert spec is not None  # a name that ends with .py is enough for it
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:
        del sys.modules[name]
        raise ConfigurationError(
            f"recipe_dirs: {file} cannot be imported: {type(exc).__name__}: {exc}"
        ) from exc
