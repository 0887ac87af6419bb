"""The package's `Environment`: its agent's commands go through our session."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Any, final

from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted

from agentcompass.components.base import ExecResult, Session
from agentcompass.components.harnesses.mini_swe_agent.account import Account
from agentcompass.components.harnesses.mini_swe_agent.crossing import call
from agentcompass.components.harnesses.mini_swe_agent.endpoint import MAX_RAW_OUTPUT
from agentcompass.components.harnesses.mini_swe_agent.place import Place
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.components.harnesses.tool_loop.tools import cut

Action = Mapping[str, Any]


@final
class Sandbox(LocalEnvironment):
    """Our session, as the package's agent uses it; what output is a submission, the package knows.

    Attributes:
        config: Where commands run.
        explain: Says what the model is told of an action's output.
        has_cut_submission: What was submitted was too long to be whole.
    """

    def __init__(self, place: Place, session: Session, account: Account) -> None:
        self.config = place
        self.explain: Callable[[Action, Mapping[str, Any]], str] = lambda _action, _output: ""
        self.has_cut_submission = False
        self._session, self._account = session, account

    def execute(
        self, action: Action, cwd: str = "", *, timeout: int | None = None
    ) -> dict[str, Any]:
        """Run a command of the agent's, in the place that the configuration names, and return what it did.

        Raises:
            Submitted: It was the one that ends the agent's work.
            SandboxError: The sandbox failed, not the command.
        """
        command = action["command"]
        result = None
        output = _failed("", TypeError(f"it is no text but {type(command).__name__}"))
        if isinstance(command, str):
            result = call(self.config.run, self._session, command)
            output = self._output(command, result)
        try:
            self._check_finished(output)
        except Submitted:
            self.has_cut_submission = result is not None and result.truncated
            self._tell(action, result, cut(output["output"], MAX_RAW_OUTPUT)[0])
            raise
        self._tell(action, result, self.explain(action, output))
        return output

    def _output(self, command: str, result: ExecResult) -> dict[str, Any]:
        text = result.stdout + result.stderr
        if not result.timed_out:
            return {"output": text, "returncode": result.returncode, "exception_info": ""}
        seconds: Any = f"{self.config.timeout_seconds:g}"
        return _failed(text, subprocess.TimeoutExpired(command, seconds))

    def _tell(self, action: Action, result: ExecResult | None, told: str) -> None:
        made = ToolResult(text=told, error="bad-arguments")
        if result is not None:
            made = ToolResult(
                text=told,
                exit_code=result.returncode,
                timed_out=result.timed_out,
                truncated=result.truncated,
            )
        seconds = 0.0 if result is None else result.duration
        call(self._account.result, action["tool_call_id"], made, seconds)

    def get_template_vars(self, **_: object) -> dict[str, Any]:
        """Return what templates know of the sandbox."""
        return {**self._config(), **self.config.system}

    def serialize(self) -> dict[str, Any]:
        """Return the configuration, for the package's trajectory."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"environment": self._config(), "environment_type": kind}}}

    def _config(self) -> dict[str, Any]:
        place = self.config
        return {
            "cwd": place.cwd,
            "env": dict(place.env),
            "interpreter": list(place.interpreter),
            "timeout": place.timeout_seconds,
        }


def _failed(output: str, error: Exception) -> dict[str, Any]:
    """What the package says of a command that it could not run to its end."""
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {error}",
        "extra": {"exception_type": type(error).__name__, "exception": str(error)},
    }
