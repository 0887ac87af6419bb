"""Tasks and answers from a local JSONL file; docs/benchmarks.md has the format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, Literal, final

import attrs
import trio

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Evaluation,
    KiB,
    LoadContext,
    Model,
    SandboxPlan,
    Session,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.benchmarks import jsonl_file, regexes
from agentcompass.components.benchmarks.jsonl_file import Contents, Item, Scorer
from agentcompass.components.benchmarks.judging import Case, JudgeParams, judge_config, judged
from agentcompass.components.benchmarks.scoring import Comparison
from agentcompass.components.benchmarks.selection import SELECTION, check_names
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError
from agentcompass.records import JSON, Metric
from agentcompass.secrets import beginning
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import NonNegativeFloat, PositiveFloat
from agentcompass.spec.resolved import ModelConfig

PLACEHOLDER: Final = "{prompt}"
ANSWER_FILE: Final = ".agentcompass/answer.txt"
"""Below the work directory, for the scorer `command`."""
ANSWER_VARIABLE: Final = "ANSWER_FILE"
MAX_SHOWN: Final = 2000
"""Characters of an expected or extracted answer that a record shows."""
MAX_OUTPUT: Final = 16 * KiB


def _absolute(path: Path | str) -> Path:
    return Path(path).expanduser().absolute()


def _as_typed(path: Path) -> Path:
    """The path as people know it: relative to the working directory if it is below."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path


@frozen(kw_only=True)
class JsonLinesParams(JudgeParams):
    """Parameters of `jsonl`."""

    path: Path = attrs.field(metadata=SELECTION, converter=_absolute)
    """The file, relative to the working directory; kept as an absolute path. Its content counts for reuse, not where it lies."""
    categories: tuple[str, ...] | None = attrs.field(default=None, metadata=SELECTION)
    """Run only tasks of these categories, at least one. None: all tasks."""
    scorer: Scorer | None = None
    """For lines that name none. None: `command` for a line with a command, `numeric` for numbers, else `exact`."""
    prompt_template: str = PLACEHOLDER
    """Text with `{prompt}` in it, put around the prompt of lines that have one."""
    system_prompt: str | None = None
    """First message of tasks that bring no system message themselves."""
    answer_pattern: str | None = None
    """Regular expression for the final answer in what the agent wrote: the last match's first group, or the whole match
    if there is no group. An answer without match scores 0. None: all of the text is the answer."""
    ignore_case: bool = False
    """Of `exact`, `contains`, `regex` and `answer_pattern`."""
    ignore_whitespace: bool = True
    """`exact` and `contains` take any run of whitespace for one space, and none at the ends."""
    absolute_tolerance: NonNegativeFloat = 0.0
    """`numeric` accepts a difference up to this, at least 0 ..."""
    relative_tolerance: NonNegativeFloat = 0.0
    """... or up to this part of the expected number, at least 0."""
    evaluate_in: Literal["fresh", "reuse"] = "fresh"
    """Where `command` runs: in a sandbox that the agent never touched, or in the agent's own."""
    artifacts: tuple[str, ...] = ()
    """Paths, relative to the work directory, that go from the agent's sandbox to the fresh one."""
    command_timeout_seconds: PositiveFloat = 600.0
    """After which `command` is ended and the task scores 0, more than 0."""


@final
class JsonLines(Benchmark[JsonLinesParams]):
    """Your own tasks: a prompt a line, scored by comparison or by a command in the sandbox."""

    id = "jsonl"
    Params: ClassVar[type] = JsonLinesParams
    metrics: ClassVar[tuple[Metric, ...]] = (Metric(name="correct", primary=True),)

    def __init__(self, params: JsonLinesParams) -> None:
        super().__init__(params)
        self.evaluates_in = Where(params.evaluate_in)
        self._version = ""
        self._judge = judge_config(params)
        self._wanted_ids = None if params.sample_ids is None else frozenset(params.sample_ids)
        self._comparison = Comparison(
            ignore_case=params.ignore_case,
            ignore_whitespace=params.ignore_whitespace,
            absolute_tolerance=params.absolute_tolerance,
            relative_tolerance=params.relative_tolerance,
        )

    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Read and check the whole file.

        Raises:
            ConfigurationError: The file, a line of it or a parameter is wrong; all problems in one error.
        """
        contents = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        self._version = contents.sha256
        return contents.tasks

    def _read(self) -> Contents:
        params, problems = self.params, Problems()
        if PLACEHOLDER not in params.prompt_template:
            problems.add(self.id, "prompt_template", f"must have {PLACEHOLDER} in it")
        if params.answer_pattern is not None and (fault := regexes.fault_of(params.answer_pattern)):
            problems.add(self.id, "answer_pattern", fault)
        path = _as_typed(params.path)
        if path.exists() and not path.is_file():
            problems.add(self.id, "path", f"{path} is no regular file")
            problems.raise_if_any()
        contents = jsonl_file.read(
            path,
            default_scorer=params.scorer,
            is_wanted=self._is_wanted,
            limit=params.limit,
            problems=problems,
        )
        if self._judge is None:
            for task in contents.tasks:
                if task.data.scorer == "judge":
                    problems.add(self.id, "judge_model", f"is required: task {task.id!r} is judged")
                    break
        if not problems:
            check_names(problems, self.id, "sample_ids", params.sample_ids, contents.ids)
            check_names(problems, self.id, "categories", params.categories, contents.categories)
        problems.raise_if_any()
        return contents

    def _is_wanted(self, task: Task) -> bool:
        ids, categories = self._wanted_ids, self.params.categories
        return (ids is None or task.id in ids) and (
            categories is None or task.category in categories
        )

    def dataset_version(self) -> str:
        """Return the hash of the file."""
        return self._version

    def plan(self, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Add the artifacts."""
        return attrs.evolve(plan, artifacts=(*plan.artifacts, *self.params.artifacts))

    def needs_agent_sandbox(self, task: Task) -> bool:
        """Only a command that runs in the agent's sandbox needs one."""
        return self.evaluates_in is Where.REUSE and self.needs_evaluation_sandbox(task)

    def needs_evaluation_sandbox(self, task: Task) -> bool:
        """Only a command needs a sandbox."""
        item: Item = task.data
        return item.scorer == "command"

    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Return the line's messages, or its prompt in the template."""
        item: Item = task.data
        messages = item.messages
        if item.prompt is not None:
            text = self.params.prompt_template.replace(PLACEHOLDER, item.prompt)
            messages = (Message(role="user", content=text),)
        if self.params.system_prompt and messages[0].role != "system":
            messages = (Message(role="system", content=self.params.system_prompt), *messages)
        return TaskInput(messages=messages)

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Return `solution`, else the first acceptable answer of a task that compares with answers.

        Raises:
            InfraError: The line has neither; a regular expression or a command shows no answer.
        """
        item: Item = task.data
        if item.solution is not None:
            return AgentOutcome(answer=item.solution)
        if item.answers and item.scorer != "regex":
            return AgentOutcome(answer=item.answers[0])
        return await super().solve(task, session)

    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Compare the answer, or run the command.

        Raises:
            EvaluatorError: A regular expression took too long, or the command cannot be run.
        """
        item: Item = task.data
        if item.scorer == "command":
            return await self._run(item.command or "", outcome.answer, session)
        details: dict[str, JSON] = {"scorer": item.scorer, "expected": _shown(item.answers)}
        if outcome.answer is None:
            return _evaluation(is_correct=False, details={**details, "result": "no answer"})
        text, is_correct = await self._compare(item, outcome.answer)
        if text is None:
            return _evaluation(
                is_correct=False, details={**details, "result": "answer_pattern matched nothing"}
            )
        if self.params.answer_pattern is not None:
            details["extracted"] = beginning(text, MAX_SHOWN)
        return _evaluation(is_correct=is_correct, details=details)

    def judge_model(self) -> ModelConfig | None:
        """Return the judge, if there is one."""
        return self._judge

    async def judge(
        self, task: Task, outcome: AgentOutcome, session: Session | None, judge: Model
    ) -> Evaluation:
        """Ask the judge about tasks with the scorer `judge`; see `judging`.

        Raises:
            EvaluatorError: It gave no verdict that could be read, or as for `evaluate`.
            ModelError: Its endpoint failed.
        """
        item: Item = task.data
        if item.scorer != "judge":
            return await self.evaluate(task, outcome, session)
        details: dict[str, JSON] = {"scorer": "judge", "expected": _shown(item.answers)}
        if not (outcome.answer or "").strip():
            return _evaluation(is_correct=False, details={**details, "result": "no answer"})
        case = Case(
            question=_as_text(item),
            answer=outcome.answer or "",
            references=item.answers,
            rubric=item.rubric or self.params.judge_rubric,
        )
        found = await judged(judge, case, votes=self.params.judge_votes)
        return attrs.evolve(
            _evaluation(is_correct=found.is_correct, details={**details, **found.details()}),
            files=found.files(),
        )

    async def _compare(self, item: Item, answer: str) -> tuple[str | None, bool]:
        """Return the text that was compared, None if the pattern found none, and whether it is right."""
        pattern, text = self.params.answer_pattern, answer
        if pattern is not None or item.scorer == "regex":
            found = await regexes.search(
                answer,
                extract=pattern,
                patterns=item.answers if item.scorer == "regex" else (),
                ignore_case=self.params.ignore_case,
            )
            if found.extracted is None or item.scorer == "regex":
                return found.extracted, found.matches
            text = found.extracted
        compare = {
            "exact": self._comparison.is_exact,
            "contains": self._comparison.contains,
            "numeric": self._comparison.is_numeric,
        }[item.scorer]
        return text, compare(text, item.answers)

    async def _run(self, command: str, answer: str | None, session: Session | None) -> Evaluation:
        if session is None:
            raise EvaluatorError("the scorer `command` was given no sandbox", retryable=False)
        await session.write_text(ANSWER_FILE, answer or "")
        result = await session.exec(
            command,
            env={ANSWER_VARIABLE: f"{session.workdir}/{ANSWER_FILE}"},
            timeout=self.params.command_timeout_seconds,
            max_output=MAX_OUTPUT,
        )
        if result.returncode in {126, 127}:
            raise EvaluatorError(
                f"the command could not be run (exit code {result.returncode}): "
                f"{result.stderr.strip()[-500:]}",
                code="command-not-found",
                retryable=False,
            )
        return _evaluation(
            is_correct=result.returncode == 0 and not result.timed_out,
            details={
                "scorer": "command",
                "exit_code": result.returncode,
                "timed_out": result.timed_out,
                "stdout": result.stdout,
                "stderr": result.stderr,
            },
        )


def _evaluation(*, is_correct: bool, details: dict[str, JSON]) -> Evaluation:
    return Evaluation(metrics={"correct": float(is_correct)}, details=details)


def _shown(answers: tuple[str, ...]) -> JSON:
    shown = [beginning(answer, MAX_SHOWN) for answer in answers]
    return shown[0] if len(shown) == 1 else shown


def _as_text(item: Item) -> str:
    """A task as a judge is shown it."""
    if item.prompt is not None:
        return item.prompt
    if len(item.messages) == 1:
        return item.messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in item.messages)
