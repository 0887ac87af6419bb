"""Every run needs a directory of its own: requests that would share one, and run ids that are there already."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentcompass.spec.problems import Problems
from agentcompass.spec.resolved import Request
from agentcompass.spec.tree import Key, Written, at, report
from agentcompass.store.layout import RunPaths, run_dir


def check_directories(
    requests: Iterable[tuple[Written, Request]], results_dir: Path, problems: Problems
) -> None:
    """Add a problem for each request whose run directory is another one's, or lies inside it or around it.

    Args:
        requests: As written and as resolved.
        results_dir: The root of all results.
        problems: Gets also each run id that the user gave and of which there is a run.
    """
    owners: dict[Path, str] = {}
    around: dict[Path, str] = {}
    for node, request in requests:
        path = run_dir(results_dir, request.run_name, request.name, request.run_id)
        shown = path.relative_to(results_dir)
        above = [path, *path.parents]
        other = next((owners[each] for each in above if each in owners), around.get(path))
        if other is not None:
            sentence = f"its results would go to {shown}, among those of request {other!r}"
            report(problems, node, sentence, *_place(node))
        elif request.run_id_is_given and RunPaths(path).journal_file.exists():
            sentence = f"there is a run of this id already, {shown}: choose another one"
            report(problems, node, sentence, *_place(node))
        owners[path] = request.name
        around |= dict.fromkeys(path.parents, request.name)


def _place(node: Written) -> tuple[Key, ...]:
    """Where the request itself says where its results go, or else its name."""
    output = ("output", "run_id")
    return output if at(node, output)[0] is not node else ("name",)
