"""docs/benchmarks.md says what is so; its tables of parameters are generated."""

from __future__ import annotations

import re
from pathlib import Path

from agentcompass.components.benchmarks.jsonl import JsonLines
from agentcompass.components.benchmarks.jsonl_file import SCORERS
from support.components import context, make

PAGE = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()


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
