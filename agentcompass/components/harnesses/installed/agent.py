"""The harness of an installed agent: it is brought, started with the gateway for its model, and listened to until it ends."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Protocol, TypeVar

import attrs

from agentcompass.components.base import (
    AgentOutcome,
    Emit,
    Gateway,
    Harness,
    LoadContext,
    Model,
    SandboxPlan,
    ServedCall,
    Session,
    TaskInput,
)
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.installed.account import Account
from agentcompass.components.harnesses.installed.params import InstalledParams
from agentcompass.components.harnesses.installed.place import Place, settled_in
from agentcompass.components.harnesses.installed.published import Published
from agentcompass.components.harnesses.installed.running import (
    Ended,
    Launch,
    Listener,
    run_program,
)
from agentcompass.components.harnesses.installed.supply import Supply
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.errors import InfraError, SandboxError
from agentcompass.records import StoppedBy

P = TypeVar("P", bound=InstalledParams)


@frozen(kw_only=True)
class Report:
    """What an agent said in the end."""

    answer: str | None = None
    """None: it did not get that far."""
    stopped_by: StoppedBy | None = None
    """Why it stopped early, if it says so in a way that a program understands."""
    problem: str | None = None
    """Why there is no answer, in its words."""


class Hearing(Listener, Protocol):
    """What listens to one attempt."""

    @property
    def report(self) -> Report:
        """What the agent has said so far."""
        ...


class InstalledAgent(Harness[P]):
    """A program that works in the sandbox by itself; `sends` and `protocols` are those of its client."""

    needs_sandbox = True
    brings_client = True
    sends: ClassVar[tuple[str, ...]] = ("tools", "tool_choice", "stream")
    run_timeout_seconds = 3600.0
    published: ClassVar[Published]
    varies: ClassVar[tuple[str, ...]] = ()
    """What of the program's own words differs from run to run; see `varying`."""

    def __init__(self, params: P) -> None:
        super().__init__(params)
        brings = params.install == "npm"
        self._supply = Supply(self.published, params.version) if brings else None

    @abc.abstractmethod
    def launch(self, program: str, place: Place, gateway: Gateway, model: str) -> Launch:
        """Return how it is started, but for what the user adds. Pure.

        Args:
            program: Its path in the sandbox.
            place: The sandbox.
            gateway: Where it reaches its model.
            model: That model's id.
        """

    @abc.abstractmethod
    def hearing(self, account: Account) -> Hearing:
        """Return what listens to one attempt and writes to its account."""

    def worded(self, prompt: str) -> str:
        """Return what the program is given, so that it takes a task for a task whatever that begins with."""
        return prompt

    def varying(self) -> Sequence[str]:
        """Return what differs from run to run: by the program's own words, and of what it finds in the user's."""
        return (*self.varies, *self.params.varying)

    async def fetch(self, ctx: LoadContext) -> None:
        """Have the program on this machine, if it is to be brought."""
        if self._supply is not None:
            await self._supply.fetch(ctx)

    def equip(self, plan: SandboxPlan) -> SandboxPlan:
        """Let the sandbox see it, where that is possible."""
        return plan if self._supply is None else self._supply.equip(plan)

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Let the program work.

        Returns:
            Its answer. `stopped_by` is `max_turns`, `context`, or what cut its last reply off, then without an answer.

        Raises:
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed, or the program cannot be had there (codes `agent-not-found`,
                `agent-unavailable`).
            InfraError: The program failed by itself (code `agent-failed`).
        """
        if session is None:
            raise SandboxError(f"{self.id} needs a sandbox and was given none", retryable=False)
        prompt = self.worded(_prompt(task_input.messages))
        account = Account(emit)
        await account.begin(task_input.messages)
        hearing = self.hearing(account)
        ended: Ended | None = None
        async with settled_in(session, self._looked_for()) as place:
            program = await self._program(session, place)
            async with model.serve(
                session, on_call=account.take_call, max_calls=self.params.max_turns
            ) as gateway:
                account.in_flight = lambda: gateway.in_flight
                launch = self._completed(self.launch(program, place, gateway, model.id))
                ended = await run_program(session, launch, prompt, place.home, hearing)
            await account.end()
        if gateway.is_exhausted:
            outcome = AgentOutcome(stopped_by="max_turns")
        else:
            outcome = self._outcome(hearing.report, account.last, ended)
        await emit(steps.final_step(outcome, turns=account.turns, usage=account.usage))
        return outcome

    def _looked_for(self) -> Sequence[str]:
        if self._supply is not None:
            return self._supply.places()
        return [self.params.program or self.published.command]

    async def _program(self, session: Session, place: Place) -> str:
        if self._supply is not None:
            return await self._supply.bring(session, place)
        if place.program is None:
            raise SandboxError(
                f"the sandbox has no {self._looked_for()[0]!r}",
                code="agent-not-found",
                retryable=False,
                hint="Use an image with it, or leave out the harness parameter `install`: then it is brought.",
            )
        return place.program

    def _completed(self, launch: Launch) -> Launch:
        return attrs.evolve(
            launch,
            argv=[*launch.argv, *self.params.arguments],
            env={**launch.env, **self.params.env_variables},
        )

    def _outcome(
        self, report: Report, last: ServedCall | None, ended: Ended | None
    ) -> AgentOutcome:
        if report.answer is not None and report.problem is None:
            return AgentOutcome(answer=report.answer, stopped_by=report.stopped_by)
        stopped_by = report.stopped_by or _cut_by(last)
        if stopped_by is None:
            raise self._failure(report, ended)
        return AgentOutcome(stopped_by=stopped_by)

    def _failure(self, report: Report, ended: Ended | None) -> InfraError:
        how = "was ended" if ended is None else f"ended with exit code {ended.exit_code}"
        said = [report.problem or "", ended.errors if ended is not None else ""]
        words = "; ".join(filter(None, said)) or "it said nothing"
        return InfraError(f"{self.published.name} {how}: {words}", code="agent-failed")


def _cut_by(last: ServedCall | None) -> StoppedBy | None:
    """Why an agent could not go on, as far as its last model call tells.

    Raises:
        ModelError: That failed.
    """
    if last is None or last.error is None:
        reply = None if last is None else last.reply
        return None if reply is None else steps.STOPPED_BY.get(reply.stop_reason)
    if last.error.code != "context-exceeded":
        raise last.error
    return "context"


def _prompt(messages: Sequence[Message]) -> str:
    """What a program reads, which takes a text: all that the task says.

    Raises:
        InfraError: It says something that is no text (code `unsupported-input`).
    """
    for message in messages:
        if not isinstance(message.content, str):
            kinds = {str(part.get("type")) for part in message.content} - {"text"}
            if kinds:
                raise InfraError(
                    f"the task has parts of kind {', '.join(sorted(kinds))}, which the agent cannot be given",
                    code="unsupported-input",
                    retryable=False,
                )
    return "\n\n".join(message.text for message in messages)
