"""The recipe `swebench_testbed`: SWE-bench's Python instances in containers of their official images."""

from __future__ import annotations

from typing import Final, final

import attrs

from agentcompass.components.base import NoParams, Recipe, SandboxPlan, Task
from agentcompass.spec.resolved import Request

BENCHMARKS: Final = frozenset({"swebench_verified", "swebench_lite", "swebench_full"})
CONDA: Final = "/opt/miniconda3"
"""Where the official images have conda, and in it the environment `testbed` with the project."""
PATH: Final = (
    f"{CONDA}/envs/testbed/bin:{CONDA}/condabin:{CONDA}/bin:"
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)


@final
class SweBenchTestbed(Recipe[NoParams]):
    """Commands find the programs of the conda environment `testbed` first, whatever shell a harness runs them in.

    The images activate it in the start-up file of interactive shells, which a single command does not read.
    """

    id = "swebench_testbed"
    description = "SWE-bench in official images: the conda environment `testbed` for every command"

    def matches(self, request: Request) -> bool:
        """Whether the benchmark has such images, and the environment starts from images."""
        return request.benchmark.id in BENCHMARKS and request.environment.id == "docker"

    def adjust(self, request: Request, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Set the search path, unless the plan has one."""
        return attrs.evolve(plan, env={"PATH": PATH, **plan.env})
