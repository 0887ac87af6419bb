"""Asks the package `swebench` one question, in a process that can be ended, and that keeps its imports to itself.

Input: a JSON object with `ask`: `parsers`; or `script` or `grade` with `row`, and for `grade` the tests' `log`. Output: a JSON
object: the names of all log parsers as `parsers`; the evaluation script as `script`; or `report`, the package's own for the
instance.

Only its test specifications, log parsers and grading are used. Importing them in the usual way would load Docker's and
Modal's clients and the package `datasets`, which takes five seconds and 200 MB for each evaluation; so the packages around
them are entered without their `__init__`, and names that only other functions use are given empty.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

CPU_SECONDS = 300
"""After which nobody waits any more."""
UNUSED = {
    "datasets": ("Dataset", "load_dataset", "load_from_disk"),
    "dotenv": ("load_dotenv",),
    "tqdm": ("tqdm",),
}
"""What the module with the test specifications imports for its other functions."""


def main() -> None:
    """Answer one question."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    asked = json.load(sys.stdin)
    _enter("swebench.harness")
    for name, attributes in UNUSED.items():
        module = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, _nothing)
        sys.modules[name] = module
    answer = {"parsers": _parsers, "script": _script, "grade": _grade}[asked["ask"]](asked)
    json.dump(answer, sys.stdout)


def _enter(name: str) -> None:
    """Make a package's modules importable without running its `__init__`."""
    parent, _, own = name.rpartition(".")
    spec = importlib.util.find_spec(parent)
    assert spec is not None
    package = types.ModuleType(name)
    package.__path__ = [str(Path(folder, own)) for folder in spec.submodule_search_locations or ()]
    sys.modules[name] = package


def _nothing(*_arguments: object, **_options: object) -> None:
    pass


def _spec(row: dict[str, Any]) -> Any:
    from swebench.harness.utils import make_test_spec  # noqa: PLC0415  # after `_enter`

    return make_test_spec({"image": "", **row})


def _parsers(_asked: dict[str, Any]) -> dict[str, Any]:
    from swebench.harness.log_parsers import PARSER_REGISTRY  # noqa: PLC0415  # after `_enter`

    return {"parsers": list(PARSER_REGISTRY)}


def _script(asked: dict[str, Any]) -> dict[str, Any]:
    return {"script": _spec(asked["row"]).eval_script}


def _grade(asked: dict[str, Any]) -> dict[str, Any]:
    from swebench.harness.grading import get_eval_report  # noqa: PLC0415  # after `_enter`

    row = asked["row"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "test_output.txt")
        log.write_text(asked["log"], encoding="utf-8")
        report = get_eval_report(
            test_spec=_spec(row),
            prediction={"instance_id": row["instance_id"], "model_patch": "(applied)"},
            test_log_path=str(log),
            include_tests_status=True,
        )
    return {"report": report[row["instance_id"]]}


if __name__ == "__main__":
    main()
