"""The benchmarks `swebench_verified`, `swebench_lite`, `swebench_full` and `swebench_multilingual`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, Literal

import attrs

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Evaluation,
    ImageBuild,
    LoadContext,
    SandboxPlan,
    Session,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.benchmarks.selection import SELECTION, SelectionParams, select
from agentcompass.components.benchmarks.swebench import data, judgement, official, repository
from agentcompass.components.benchmarks.swebench.instances import Instance, check_parsers, tasks_of
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError, InfraError, SandboxError
from agentcompass.records import Metric
from agentcompass.spec.ranges import PositiveFloat

REPOSITORY_DIR: Final = "/testbed"
"""Where the official images have the repository."""
INSTRUCTION: Final = """\
The repository of the project {repo} is in the directory {directory}. Solve the issue below: change the project's source \
files there so that it behaves as the issue asks, in a way that fits the code around it. You need not change tests, nor \
commit anything: what you leave in the directory counts, and is judged by tests that you do not see.

<issue>
{issue}
</issue>
"""
TRUNCATED: Final = "submission_truncated"
"""Detail of an outcome whose answer is not whole."""
PATCH_BEGINS: Final = "diff --git "
_GOLD: Final = f"{repository.OURS}/gold.diff"


def _absolute(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path).expanduser().absolute()


@frozen(kw_only=True)
class SweBenchParams(SelectionParams):
    """Parameters of the benchmarks of SWE-bench."""

    seed: int | None = attrs.field(default=None, metadata=SELECTION)
    """Shuffles the tasks before `limit` counts them. None: the data's order."""
    dataset_path: Path | None = attrs.field(default=None, converter=_absolute, metadata=SELECTION)
    """A file of rows in place of the published data: .jsonl, .json or .parquet. Its content counts for reuse, not where it lies."""
    revision: str | None = attrs.field(default=None, metadata=SELECTION)
    """Of the published data: a commit id, or a tag or branch, which is resolved once. None: the one that this version knows."""
    split: str = attrs.field(default="test", metadata=SELECTION)
    """Of the published data; `swebench_lite` and `swebench_full` have a `dev` too."""
    submission: Literal["auto", "answer", "repository"] = "auto"
    """What is judged: the patch that the agent's answer is, or what it changed in the repository. `auto`: the answer where that is
    a patch, as that of `mini_swe_agent` is, else the repository."""
    image_prefix: str = ""
    """Put before the name of every image, such as `registry.example.org/mirror/`."""
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Of the images."""
    tasks_dir: Path | None = attrs.field(default=None, converter=_absolute)
    """The directory `tasks` of the official repository of tasks, which has a Dockerfile for each: from that an image is built
    that cannot be pulled, or all (`task_images` of the environment `docker`). None: images are pulled."""
    repository_dir: str = REPOSITORY_DIR
    """Where the images have the repository."""
    network: bool = True
    """Whether agent and tests may reach the network; published results are with it."""
    test_timeout_seconds: PositiveFloat = 1800.0
    """After which an instance's tests are ended and have failed, more than 0. Source: `run_evaluation` of swebench 5.0.2."""


class SweBench(Benchmark[SweBenchParams]):
    """An issue of a real repository: the agent changes the repository, and tests that it does not see judge its patch."""

    Params: ClassVar[type] = SweBenchParams
    metrics: ClassVar[tuple[Metric, ...]] = judgement.METRICS
    evaluates_in = Where.FRESH
    extra: ClassVar[str | None] = "swebench"
    requires: ClassVar[tuple[str, ...]] = ("swebench", "huggingface_hub", "pyarrow")
    published: ClassVar[tuple[str, str]]
    """Repository of the hub, and commit."""

    def __init__(self, params: SweBenchParams) -> None:
        super().__init__(params)
        self._version = ""

    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Return the selected instances; the data is downloaded on the first use.

        Raises:
            ConfigurationError: `sample_ids` names an instance that does not exist, or the user's file is wrong.
            PreflightError: The data cannot be had.
        """
        params, (repository_name, commit) = self.params, self.published
        if params.dataset_path is not None:
            where = str(params.dataset_path)
            found = await data.of_file(params.dataset_path, ctx)
            self._version = found.version
        else:
            revision = params.revision or commit
            source = data.Published(
                repository=repository_name, revision=revision, split=params.split
            )
            where = str(source)
            found = await data.published(source, ctx, self.id)
            self._version = f"{repository_name}@{found.version} {params.split}"
        tasks = [self._with_deadline(task) for task in tasks_of(found.rows, where)]
        if params.dataset_path is not None or params.revision is not None:
            check_parsers(tasks, await official.parsers(), where)
        if params.seed is not None:
            random.Random(params.seed).shuffle(tasks)
        return select(tasks, params, self.id)

    def _with_deadline(self, task: Task) -> Task:
        seconds = self.params.test_timeout_seconds + judgement.MARGIN_SECONDS
        return attrs.evolve(task, evaluate_timeout_seconds=seconds)

    def dataset_version(self) -> str:
        """Return the repository, commit and split of the data, or the hash of the user's file."""
        return self._version

    def plan(self, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Name the image and the artifacts."""
        params = self.params
        build = plan.build
        if params.tasks_dir is not None and (params.tasks_dir / task.id / "Dockerfile").is_file():
            build = ImageBuild(context=params.tasks_dir / task.id)
        return attrs.evolve(
            plan,
            image=image_of(task.data, params),
            build=build,
            workdir=params.repository_dir,
            network=plan.network and params.network,
            artifacts=(repository.PATCH, repository.NOTES, *plan.artifacts),
        )

    def needs_agent_sandbox(self, task: Task) -> bool:
        """It is where the patch comes from."""
        return True

    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Remove what came after the issue from the repository's history; return the issue.

        Raises:
            SandboxError: The image has no git or no repository.
        """
        instance: Instance = task.data
        await repository.prepare(_needed(session), self.params.repository_dir)
        issue = instance.problem_statement
        text = INSTRUCTION.format(
            repo=instance.repo, directory=self.params.repository_dir, issue=issue.strip()
        )
        return TaskInput(messages=(Message(role="user", content=text),), statement=issue)

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Apply the reference patch.

        Raises:
            InfraError: It does not apply (`reference-solution-failed`).
        """
        instance, sandbox = task.data, _needed(session)
        await sandbox.write_text(_GOLD, instance.patch)
        done = await sandbox.exec(["git", "apply", _GOLD], cwd=self.params.repository_dir)
        if done.returncode != 0:
            raise InfraError(
                f"the reference patch does not apply: {done.stderr.strip()[-500:]}",
                code="reference-solution-failed",
                retryable=False,
            )
        return AgentOutcome()

    async def collect(self, task: Task, session: Session) -> None:
        """Make the patch."""
        await repository.collect(session, self.params.repository_dir)

    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Apply the patch to a repository that the agent never touched, run the tests there, grade them officially.

        An empty patch, one that does not apply, and tests that run out of time score 0 without a failure.

        Raises:
            EvaluatorError: The tests could not be run or graded.
        """
        sandbox = _needed(session)
        answer = self._patch_of(outcome)
        if answer is not None:
            await sandbox.write_text(repository.PATCH, answer)
        left = await repository.read_collected(sandbox)
        if left is None:
            raise EvaluatorError(
                "there is no patch, not even an empty one", code="no-patch", retryable=False
            )
        found = await judgement.judge(
            task.data,
            left if answer is None else repository.Collected(patch=answer.encode(errors="replace")),
            sandbox,
            directory=self.params.repository_dir,
            test_timeout_seconds=self.params.test_timeout_seconds,
        )
        origin = "repository" if answer is None else "answer"
        return attrs.evolve(found, details={**found.details, "patch_from": origin})

    def _patch_of(self, outcome: AgentOutcome) -> str | None:
        """The patch that an agent's answer is; None where the repository is judged."""
        answer, submission = outcome.answer or "", self.params.submission
        is_whole_patch = answer.startswith(PATCH_BEGINS) and not outcome.details.get(TRUNCATED)
        if submission == "repository" or (submission == "auto" and not is_whole_patch):
            return None
        return answer if not answer or answer.endswith("\n") else f"{answer}\n"


class SweBenchVerified(SweBench):
    """500 issues whose solvability people have verified."""

    id = "swebench_verified"
    published = ("SWE-bench/SWE-bench_Verified", "78f471bf655a3137b2e8a75af1501690ec009ec3")


class SweBenchLite(SweBench):
    """300 issues that are quicker to evaluate."""

    id = "swebench_lite"
    published = ("SWE-bench/SWE-bench_Lite", "b0dde1093fe417d83b7184254edf8199c1f0dff5")


class SweBenchFull(SweBench):
    """The 2,294 issues of the original publication."""

    id = "swebench_full"
    published = ("SWE-bench/SWE-bench", "c6fe717fd7a4c3ac1daa4055a4fd082c6a1d28a2")


class SweBenchMultilingual(SweBench):
    """300 issues of repositories in nine languages."""

    id = "swebench_multilingual"
    published = (
        "SWE-bench/SWE-bench_Multilingual",
        "846e647b9f33c0b51b739d005d13d85493c9af09",
    )


def image_of(instance: Instance, params: SweBenchParams) -> str:
    """Return the name of an instance's image: what its row says, else as the official ones are called.

    Rows name images for x86_64, so that their word counts for that only.
    """
    if instance.image is not None and params.architecture == "x86_64":
        return params.image_prefix + instance.image
    # an image's name may not have two underscores in a row
    name = instance.id.replace("__", "_1776_").lower()
    return f"{params.image_prefix}swebench/sweb.eval.{params.architecture}.{name}:latest"


def _needed(session: Session | None) -> Session:
    if session is None:
        raise SandboxError("SWE-bench needs a sandbox and was given none", retryable=False)
    return session
