"""The package as a whole: sizes, public names, floors, the cost of importing it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentcompass

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agentcompass"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 400
LONGER = {
    # a program of its own, which runs without the package around it
    "components/environments/keeper.py": 590,
}
HEAVY = {"asyncio", "cyclopts", "docker", "httpx", "rich", "ruamel.yaml", "trio", "trio_asyncio"}


def _repository_files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [ROOT / line for line in listed.stdout.splitlines()]
    kept = ("agentcompass", "docs", "tests")
    return [path for name in kept for path in (ROOT / name).rglob("*.*")]


def _imported_by(statement):
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(child.stdout.split())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_described_by_its_docstring_and_not_too_long(path):
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    limit = LONGER.get(path.relative_to(PACKAGE).as_posix(), LONGEST)
    assert len(text.splitlines()) <= limit


def test_the_public_names_are_sorted_and_each_can_be_imported():
    assert agentcompass.__all__ == sorted(agentcompass.__all__)
    for name in agentcompass.__all__:
        assert getattr(agentcompass, name) is not None
    assert set(agentcompass.__all__) <= set(dir(agentcompass))


def test_type_checkers_see_the_same_public_names_from_the_same_modules():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module.removeprefix("agentcompass.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("agentcompass.")
        for alias in node.names
    }
    assert seen == agentcompass._ORIGINS


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'run_evalution'"):
        agentcompass.run_evalution  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import agentcompass", set()),
        ("from agentcompass import OrchestrationSpec, ConfigurationError, Secret", set()),
        ("import agentcompass.cli.entry", set()),
    ],
    ids=["package", "spec classes", "command line"],
)
def test_importing_it_loads_nothing_heavy(statement, allowed):
    assert _imported_by(statement) & HEAVY <= allowed


def test_naming_the_entry_points_loads_no_engine():
    loaded = _imported_by("from agentcompass import async_launch, run_evaluation")
    assert loaded & (HEAVY - {"ruamel.yaml"}) == set()


def test_imports_go_down_only():
    child = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr


def test_no_file_names_a_place_of_the_machine_it_was_written_on():
    places = {str(ROOT), sys.prefix, str(Path.home())} - {"/", "/root", "/usr", "/usr/local"}
    found = [
        f"{path.relative_to(ROOT)}: {place}"
        for path in _repository_files()
        if path.is_file()
        for place in places
        if place.encode() in path.read_bytes()
    ]
    assert not found
