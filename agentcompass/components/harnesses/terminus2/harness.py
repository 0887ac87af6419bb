"""The harness `terminus2` and its parameters."""

from __future__ import annotations

from typing import ClassVar, final

from agentcompass.components.base import AgentOutcome, Emit, Harness, Model, Session, TaskInput
from agentcompass.components.harnesses.terminus2.loop import Attempt
from agentcompass.components.harnesses.terminus2.params import Terminus2Params
from agentcompass.components.harnesses.terminus2.recording import Recording
from agentcompass.components.harnesses.terminus2.start import Pane
from agentcompass.components.harnesses.terminus2.terminal import in_terminal
from agentcompass.errors import SandboxError


@final
class Terminus2(Harness[Terminus2Params]):
    """A model with a terminal, which works until it says twice that the task is complete."""

    id = "terminus2"
    Params: ClassVar[type] = Terminus2Params
    needs_sandbox = True
    protocols: ClassVar[tuple[str, ...]] = ("openai-chat", "openai-responses", "anthropic")

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Let the model work.

        Returns:
            What it said last about where things stand, as the answer. `stopped_by` is `max_turns`, `context`,
            `terminal` (it ended its terminal twice), `refusal` or `content_filter`, then without an answer.

        Raises:
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed, or has no terminal (code `no-tmux`).
        """
        if session is None:
            raise SandboxError(f"{self.id} needs a sandbox and was given none", retryable=False)
        params = self.params
        pane = Pane(
            width=params.tmux_pane_width,
            height=params.tmux_pane_height,
            is_login=params.login_shell,
            program=params.tmux,
        )
        recording = Recording(
            emit.folder if params.record_terminal else None, width=pane.width, height=pane.height
        )
        return await in_terminal(
            session,
            pane,
            recording,
            lambda terminal: Attempt(params, task_input, terminal, model, emit).run(),
            max_bytes=params.max_output_bytes,
        )
