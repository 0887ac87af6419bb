"""A benchmark of a third party whose tasks bring images, Dockerfiles and services, a harness, and the program that runs them."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from agentcompass.components.base import Harness, ImageBuild
from agentcompass.components.benchmarks.jsonl import JsonLines
from agentcompass.data import frozen
from agentcompass.errors import PreflightError
from support.commandline import ROOT
from support.docker_runs import DockerRuns

BOXED = "support.boxed:Boxed"


class Boxed(JsonLines):
    """The tasks of a file; `plans.json` beside it says by task what their sandboxes need."""

    id = "boxed"

    def plan(self, task, plan):
        said = json.loads(Path("plans.json").read_text()).get(task.id, {})
        plan = super().plan(task, plan)
        if build := said.get("build"):
            build = ImageBuild(context=Path(build).absolute())
        compose = said.get("compose")
        return attrs.evolve(
            plan,
            image=said.get("image"),
            build=build,
            compose=compose and Path(compose).absolute(),
        )


@frozen(kw_only=True)
class FetchingParams:
    succeeds: bool = True


class Fetching(Harness):
    """A harness that brings something, if it can."""

    id = "fetching"
    Params = FetchingParams
    needs_model = False

    async def fetch(self, ctx):
        if not self.params.succeeds:
            raise PreflightError("it is published nowhere")

    async def run(self, task_input, session, model, emit):
        raise AssertionError("nothing is run")


def boxed_runs(folder, *plans: dict, **fields) -> DockerRuns:
    """Runs of it.

    Args:
        folder: Where.
        plans: What the tasks need, in their order; the last one is for all that follow.
        fields: Of `DockerRuns`.
    """
    environ = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    runs = DockerRuns(folder, benchmark=BOXED, environ=environ, **fields)
    said = {f"task-{n}": plans[min(n, len(plans) - 1)] for n in range(runs.count)}
    (folder / "plans.json").write_text(json.dumps(said))
    return runs
