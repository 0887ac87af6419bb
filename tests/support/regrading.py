"""A benchmark whose agents leave a file, judged in a fresh sandbox by what its parameter says is right."""

from __future__ import annotations

from agentcompass import (
    AgentOutcome,
    Benchmark,
    Evaluation,
    EvaluatorError,
    Harness,
    Message,
    Metric,
    NoParams,
    SandboxPlan,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.base import P
from agentcompass.data import frozen

WORKED: list[str] = []
"""Tasks at which an agent of this process worked."""


@frozen(kw_only=True)
class Params:
    right: str = "blue"
    """What the file must hold."""
    is_broken: bool = False
    """Whether the evaluator fails."""
    tasks: int = 3


class Colours(Benchmark[Params]):
    id = "colours"
    Params = Params
    metrics = (Metric(name="right", primary=True),)
    evaluates_in = Where.FRESH

    async def load_tasks(self, ctx):
        return [Task(id=f"task-{n}") for n in range(self.params.tasks)]

    def plan(self, task, plan):
        return SandboxPlan(artifacts=("colour.txt",))

    def needs_agent_sandbox(self, task):
        return True

    async def prepare(self, task, session):
        return TaskInput(messages=(Message(role="user", content=task.id),))

    async def collect(self, task, session):
        text = await session.read_text("answer.txt")
        await session.write_text("colour.txt", text.strip())

    async def evaluate(self, task, outcome, session):
        if self.params.is_broken:
            raise EvaluatorError("the evaluator is out of order", code="out-of-order")
        colour = await session.read_text("colour.txt")
        return Evaluation(
            metrics={"right": colour == self.params.right},
            details={"said": outcome.answer or ""},
            files={"report.txt": colour.encode()},
        )


class InPlace(Colours):
    id = "in_place"
    evaluates_in = Where.REUSE


class Painter(Harness[P]):
    id = "painter"
    Params = NoParams
    needs_model = False
    needs_sandbox = True

    async def run(self, task_input, session, model, emit):
        WORKED.append(task_input.prompt)
        if task_input.prompt == "task-2":
            raise OSError("the paint is dry")
        await session.write_text("answer.txt", "blue\n")
        (emit.folder() / "notes.txt").write_text("one coat")
        return AgentOutcome(answer="painted " + "x" * 70_000)
