"""docs/benchmarks.md says what the parameters are."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from agentcompass.components.benchmarks.humaneval import HumanEval
from agentcompass.components.benchmarks.jsonl import JsonLines
from agentcompass.components.benchmarks.jsonl_file import SCORERS
from agentcompass.components.benchmarks.selection import SelectionParams
from agentcompass.spec.docs import field_docs
from support.components import context, make

PAGE = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()


def section(name):
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[{"humaneval": 1, "jsonl": 2}[name]]


@pytest.mark.parametrize("cls", [HumanEval, JsonLines])
def test_every_parameter_is_in_the_table_with_its_default_and_has_help(cls):
    text = section(cls.id).split("| parameter | default |")[1]
    shared = {field.name for field in attrs.fields(SelectionParams)}
    for field in attrs.fields(cls.Params):
        assert field_docs(cls.Params)[field.name]
        if field.name in shared:
            continue
        (row,) = [
            line
            for line in text.splitlines()
            if line.startswith("|") and f"`{field.name}`" in line.split("|")[1]
        ]
        default = row.split("|")[2].strip().strip("`")
        if field.default not in (None, (), attrs.NOTHING):
            shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
            assert default == (f"{shown:g}" if isinstance(shown, float) else str(shown))


def test_every_scorer_is_explained():
    for scorer in SCORERS:
        assert f"| `{scorer}` |" in PAGE


async def test_the_example_file_loads(tmp_path):
    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "tasks.jsonl"
    path.write_text(example)
    benchmark = make(JsonLines, path=str(path))
    tasks = await benchmark.load_tasks(context(tmp_path))
    assert [task.data.scorer for task in tasks] == ["exact", "numeric", "command"]
