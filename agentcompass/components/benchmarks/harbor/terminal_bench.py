"""Terminal-Bench's published data sets: their sources, pinned, and how many tasks each has.

Sources: Harbor's registry (`terminal-bench@2.0`), the repository harbor-framework/terminal-bench-2-1, from which the
Harbor data set `terminal-bench/terminal-bench-2-1` is published, the Hugging Face repository
zai-org/terminal-bench-2-verified, and the registry of the package terminal-bench (`terminal-bench-core==0.1.1`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, TypeAlias, final

import attrs

from agentcompass.components.base import LoadContext, Task
from agentcompass.components.benchmarks.harbor.benchmark import (
    RESOLVED,
    REWARD,
    TaskDirectories,
    TaskDirectoryParams,
    absolute,
)
from agentcompass.components.benchmarks.harbor.core_tasks import CORE_TASKS
from agentcompass.components.benchmarks.harbor.first_generation import FirstGenerationFormat
from agentcompass.components.benchmarks.harbor.tasks import FormatOf
from agentcompass.components.benchmarks.selection import SELECTION
from agentcompass.data import frozen
from agentcompass.datasets import GitSource, HubSource, obtain
from agentcompass.errors import counted
from agentcompass.records import Metric

Published: TypeAlias = GitSource | HubSource


@frozen(kw_only=True)
class TerminalBenchParams(TaskDirectoryParams):
    """Parameters of Terminal-Bench's data sets."""

    dataset_path: Path | None = attrs.field(default=None, metadata=SELECTION, converter=absolute)
    """A directory of task directories, relative to the working directory, in place of the published data set; null: that is
    downloaded once."""
    revision: str | None = attrs.field(default=None, metadata=SELECTION)
    """Another revision of the published data set than the pinned one: a commit id; or a tag or branch, which is resolved when
    it is first obtained and then stays."""


class TerminalBench(TaskDirectories[TerminalBenchParams]):
    """A published data set of Terminal-Bench."""

    Params: ClassVar[type] = TerminalBenchParams
    metrics: ClassVar[tuple[Metric, ...]] = (attrs.evolve(RESOLVED, primary=True), REWARD)
    source: ClassVar[Published]
    count: ClassVar[int]
    """Tasks that it has."""
    only: ClassVar[frozenset[str] | None] = None
    """Its tasks where the source has others, too."""

    async def directory(self, ctx: LoadContext) -> Path:
        """Return `dataset_path`, or where the published data set is."""
        if self.params.dataset_path is not None:
            return self.params.dataset_path
        source = attrs.evolve(self.source, revision=self.params.revision or self.source.revision)
        obtained = await obtain(
            source,
            ctx.data_dir,
            tell=ctx.note,
            may_download=ctx.may_download,
            wanted_by=self.id,
        )
        return obtained.directory

    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Get and read the tasks; see `TaskDirectories.load_tasks`."""
        is_published = self.params.dataset_path is None
        directory = await self.directory(ctx)
        contents = await self._contents(directory, ctx, self.only if is_published else None)
        if contents.count != self.count:
            there = counted(contents.count, "task")
            ctx.note(f"{self.id}: {directory} has {there}; the published data set has {self.count}")
        self._version = contents.version
        return contents.tasks


@final
class TerminalBench2(TerminalBench):
    """Terminal-Bench 2.0."""

    id = "terminal_bench_2"
    source: ClassVar[Published] = GitSource(
        url="https://github.com/harbor-framework/terminal-bench-2.git",
        revision="69671fbaac6d67a7ef0dfec016cc38a64ef7a77c",
    )
    count: ClassVar[int] = 89


@final
class TerminalBench21(TerminalBench):
    """Terminal-Bench 2.1."""

    id = "terminal_bench_2_1"
    source: ClassVar[Published] = GitSource(
        url="https://github.com/harbor-framework/terminal-bench-2-1.git",
        revision="7131e4375048a0e408a8fb404b5f499d726b695b",
        path="tasks",
    )
    count: ClassVar[int] = 89


@final
class TerminalBench2Verified(TerminalBench):
    """Terminal-Bench 2.0 with the faults that Z.ai found in its tasks mended."""

    id = "terminal_bench_2_verified"
    source: ClassVar[Published] = HubSource(
        repository="zai-org/terminal-bench-2-verified",
        revision="2d28949d016330454060a57343405330633622b8",
    )
    count: ClassVar[int] = 89


@final
class TerminalBenchCore(TerminalBench):
    """Terminal-Bench's first generation."""

    id = "terminal_bench_core"
    format_of: ClassVar[FormatOf] = FirstGenerationFormat
    source: ClassVar[Published] = GitSource(
        url="https://github.com/laude-institute/terminal-bench.git",
        revision="91e10457b5410f16c44364da1a34cb6de8c488a5",
        path="tasks",
    )
    count: ClassVar[int] = len(CORE_TASKS)
    only: ClassVar[frozenset[str] | None] = CORE_TASKS
