"""Benchmarks whose tasks are directories; `harbor`: any of them in the Harbor format."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar, final

import attrs
import trio

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Evaluation,
    KiB,
    LoadContext,
    SandboxPlan,
    Session,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.benchmarks.harbor import tasks
from agentcompass.components.benchmarks.harbor.definition import Definition, Upload, resolved
from agentcompass.components.benchmarks.harbor.healthcheck import wait_until_healthy
from agentcompass.components.benchmarks.harbor.task_directory import HarborFormat
from agentcompass.components.benchmarks.harbor.tasks import DirectorySelection, FormatOf
from agentcompass.components.benchmarks.harbor.trust import Memory
from agentcompass.components.benchmarks.harbor.verifier import Rules, Verifier, scratch_folder
from agentcompass.components.benchmarks.selection import SELECTION
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.datasets import GitSource, HubSource, RegistrySource, Source, obtain
from agentcompass.errors import ConfigurationError, EvaluatorError, InfraError
from agentcompass.records import Metric
from agentcompass.secrets import Secret

REGISTRY: Final = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
RESOLVED: Final = Metric(name="resolved")
"""Whether the reward is 1."""
REWARD: Final = Metric(name="reward", kind="scalar")
MAX_OUTPUT: Final = 64 * KiB
"""Of a reference solution, kept of each stream."""


def absolute(path: Path | str | None) -> Path | None:
    """Return a path of the user's as it is meant from anywhere."""
    return None if path is None else Path(path).expanduser().absolute()


@frozen(kw_only=True)
class TaskDirectoryParams(DirectorySelection):
    """Parameters of all benchmarks whose tasks are directories."""

    leftover_processes: Literal["keep", "end"] = "keep"
    """What an agent left running when its tests begin: `keep` as the published harness does, since a server may be the
    answer; `end` where tasks need none, so that nothing of the agent's runs beside the tests."""
    variables: Mapping[str, Secret] = attrs.field(factory=dict)
    """What `${NAME}` stands for in tasks' own environment variables, such as a key for a judge; no others are given to them."""


@frozen(kw_only=True)
class HarborParams(TaskDirectoryParams):
    """Parameters of `harbor`: one of `path`, `git`, `hub` and `dataset` says where the tasks are."""

    path: Path | None = attrs.field(default=None, metadata=SELECTION, converter=absolute)
    """A directory of task directories, or one of them, relative to the working directory. Its content counts for reuse, not
    where it lies."""
    git: str | None = attrs.field(default=None, metadata=SELECTION)
    """URL of a git repository; with `revision`."""
    hub: str | None = attrs.field(default=None, metadata=SELECTION)
    """A data set repository of the Hugging Face hub, `owner/name`; with `revision`."""
    dataset: str | None = attrs.field(default=None, metadata=SELECTION)
    """A data set of a Harbor registry, `NAME` or `NAME@VERSION`."""
    revision: str | None = attrs.field(default=None, metadata=SELECTION)
    """Of `git` or `hub`: a commit id; or a tag or branch, which is resolved when it is first obtained and then stays."""
    subdirectory: str = attrs.field(default="", metadata=SELECTION)
    """Of `git` or `hub`: the directory of task directories; empty for the top."""
    registry: str = attrs.field(default=REGISTRY, metadata=SELECTION)
    """URL of the `registry.json` that lists `dataset`."""
    reward_key: str = "reward"
    """Which number of a `reward.json` is the reward."""


P = TypeVar("P", bound=TaskDirectoryParams)


class TaskDirectories(Benchmark[P]):
    """Tasks that are directories, each with the tests that judge what an agent left in its sandbox."""

    metrics: ClassVar[tuple[Metric, ...]] = (RESOLVED, attrs.evolve(REWARD, primary=True))
    evaluates_in = Where.REUSE
    keeps_processes: ClassVar[bool] = True
    format_of: ClassVar[FormatOf] = HarborFormat

    def __init__(self, params: P) -> None:
        super().__init__(params)
        self._version = ""
        self._memory = Memory()
        self._variables = {name: value.reveal() for name, value in params.variables.items()}

    @abc.abstractmethod
    async def directory(self, ctx: LoadContext) -> Path:
        """Return where the tasks are, after getting them.

        Raises:
            PreflightError: They cannot be had.
        """

    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Get and read the task directories.

        Raises:
            ConfigurationError: A task is broken or not supported; or a parameter is wrong.
            PreflightError: There are none, or they cannot be had.
        """
        contents = await self._contents(await self.directory(ctx), ctx)
        self._version = contents.version
        return contents.tasks

    async def _contents(
        self, directory: Path, ctx: LoadContext, only: frozenset[str] | None = None
    ) -> tasks.Contents:
        wanted = tasks.Wanted(
            where=self.id,
            format_of=self.format_of,
            selection=self.params,
            variables=self._variables,
            only=only,
        )
        load = partial(
            tasks.load,
            directory,
            wanted,
            note=lambda text: trio.from_thread.run_sync(ctx.note, text),
            check=trio.from_thread.check_cancelled,
        )
        return await trio.to_thread.run_sync(load)

    def dataset_version(self) -> str:
        """Return a hash over the files of all tasks."""
        return self._version

    def plan(self, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Return the sandbox that the task describes."""
        definition: Definition = task.data
        own = definition.plan
        return attrs.evolve(
            own, env={**plan.env, **own.env}, artifacts=(*plan.artifacts, *own.artifacts)
        )

    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Make the directories that the published harness makes, and return the instruction.

        Raises:
            InfraError: The image has no bash (code `bash-missing`), or what the task's health check waits for does not
                come (`unhealthy`).
        """
        definition: Definition = task.data
        session = _needed(session)
        await self._memory.remember(session)
        async with scratch_folder() as scratch:
            for folder in definition.folders:
                await session.upload(scratch / "empty", folder)
        if definition.files is not None:
            await session.upload(definition.files, session.workdir)
        if definition.healthcheck is not None:
            await wait_until_healthy(session, definition.healthcheck)
        return TaskInput(messages=(Message(role="user", content=definition.instruction),))

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Run the reference solution in the agent's sandbox, as the agent.

        Raises:
            InfraError: The task has none (code `no-reference-solution`), or it needs a variable that `variables` has not.
        """
        definition: Definition = task.data
        session, solution = _needed(session), definition.solution
        if solution is None:
            return await super().solve(task, session)
        for upload in solution.uploads:
            await _send(session, upload)
        result = await session.exec(
            solution.command,
            env=resolved(solution.env, self._variables, _no_such_variable),
            stdin=solution.stdin,
            max_output=MAX_OUTPUT,
        )
        output = f"{result.stdout}{result.stderr}"[-KiB:]
        return AgentOutcome(
            details={"solution": {"exit_code": result.returncode, "output": output}}
        )

    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Run the task's tests in the agent's sandbox; see `verifier`.

        Raises:
            EvaluatorError: There is no verdict.
        """
        definition: Definition = task.data
        verifier = Verifier(_needed(session), definition.tests, self._memory, self._rules())
        return await verifier.evaluate()

    def _rules(self) -> Rules:
        return Rules(ends_leftovers=self.params.leftover_processes == "end")


@final
class Harbor(TaskDirectories[HarborParams]):
    """Any tasks in the Harbor format."""

    id = "harbor"
    Params: ClassVar[type] = HarborParams

    def __init__(self, params: HarborParams) -> None:
        super().__init__(params)
        self._source = _source(params)

    async def directory(self, ctx: LoadContext) -> Path:
        """Return `path`, or where the source's content is."""
        if self._source is None:
            assert self.params.path is not None
            return self.params.path
        obtained = await obtain(
            self._source,
            ctx.data_dir,
            tell=ctx.note,
            may_download=ctx.may_download,
            wanted_by=self.id,
        )
        return obtained.directory

    def _rules(self) -> Rules:
        return attrs.evolve(super()._rules(), reward_key=self.params.reward_key)


def _source(params: HarborParams) -> Source | None:
    """Where the tasks are published; None if they are here."""
    places = ("path", "git", "hub", "dataset")
    given = [name for name in places if getattr(params, name) is not None]
    if len(given) != 1:
        said = f"has {' and '.join(given)}" if given else "does not say where the tasks are"
        raise ConfigurationError(
            f"harbor {said}", hint=f"Give one of {', '.join(places[:-1])} and {places[-1]}."
        )
    has_revision = bool(params.revision)
    if has_revision != (given[0] in {"git", "hub"}):
        verb = "takes no" if has_revision else "needs a"
        raise ConfigurationError(f"harbor: {given[0]} {verb} revision")
    if params.git is not None:
        return GitSource(url=params.git, revision=params.revision or "", path=params.subdirectory)
    if params.hub is not None:
        return HubSource(
            repository=params.hub, revision=params.revision or "", path=params.subdirectory
        )
    if params.dataset is not None:
        name, _, version = params.dataset.partition("@")
        return RegistrySource(url=params.registry, name=name, version=version or None)
    return None


async def _send(session: Session, upload: Upload) -> None:
    await session.upload(upload.source, upload.target)


def _needed(session: Session | None) -> Session:
    if session is None:
        raise EvaluatorError("tasks of this kind need a sandbox", retryable=False)
    return session


def _no_such_variable(key: str, name: str) -> None:
    raise InfraError(
        f"the reference solution's {key} needs the variable {name}",
        code="no-such-variable",
        retryable=False,
        hint="Give it with the parameter `variables`.",
    )
