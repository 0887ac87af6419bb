"""The package's agent at work: its own loop and templates, with our model and our sandbox in the places of its own.

This module, `endpoint` and `sandbox` import the package, and are themselves imported by `package.load_drive` alone. What is in
them runs in a worker thread, but for what goes through `crossing.call`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import attrs
from jinja2 import TemplateError
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import LimitsExceeded, Submitted, TimeExceeded

from agentcompass.components.base import AgentOutcome, Model, Session
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.mini_swe_agent.account import Account
from agentcompass.components.harnesses.mini_swe_agent.config import Config
from agentcompass.components.harnesses.mini_swe_agent.endpoint import Endpoint
from agentcompass.components.harnesses.mini_swe_agent.place import Place
from agentcompass.components.harnesses.mini_swe_agent.sandbox import Sandbox
from agentcompass.errors import InfraError, describe
from agentcompass.records import JSON, StoppedBy

TRAJECTORY_FILE: Final = "mini-swe-agent.traj.json"

_log: Final = logging.getLogger("agentcompass.mini_swe_agent")


@final
class Drive:
    """One attempt of the agent.

    Args:
        config: What it is told.
        place: Where its commands run.
        session: The sandbox.
        model: What it asks.
        account: Is told what happens.
    """

    def __init__(
        self, config: Config, place: Place, session: Session, model: Model, account: Account
    ) -> None:
        self._account = account
        self._endpoint = Endpoint(config.model, model, account)
        self._sandbox = Sandbox(place, session, account)
        self._agent = new_agent(config, self._endpoint, self._sandbox)
        self._sandbox.explain = self._explain

    def run(self, task: str, folder: Callable[[], Path]) -> AgentOutcome:
        """Let the agent work; what it keeps of that itself is written also when it is stopped.

        Args:
            task: What is to be done.
            folder: Makes and returns the directory for it.

        Raises:
            InfraError: Sandbox or endpoint failed, or a template of the user's (`bad-template`).
            trio.Cancelled: The task that waits for it is cancelled.
        """
        try:
            info = self._agent.run(task)
        except TemplateError as error:
            raise InfraError(
                f"a template of the configuration fails: {describe(error)}",
                code="bad-template",
                retryable=False,
            ) from error
        finally:
            self._keep(folder)
        status = info["exit_status"]
        details: dict[str, JSON] = {"exit_status": status}
        if status != Submitted.__name__:
            return AgentOutcome(stopped_by=self._stopped_by(status), details=details)
        if self._sandbox.has_cut_submission:
            details["submission_truncated"] = True
        return AgentOutcome(answer=info["submission"], details=details)

    def _stopped_by(self, status: str) -> StoppedBy:
        if status == LimitsExceeded.__name__:
            limit = self._agent.config.step_limit
            return "max_turns" if 0 < limit <= self._agent.n_calls else "budget"
        if status == TimeExceeded.__name__:
            return "timeout"
        # too many replies in a row without a proper call, perhaps since they were cut off
        return steps.STOPPED_BY.get(self._account.stop_reason, "format_errors")

    def _explain(self, action: Any, output: Any) -> str:
        (told,) = self._endpoint.format_observation_messages(
            {"extra": {"actions": [action]}}, [output], self._agent.get_template_vars()
        )
        return str(told["content"])

    def _keep(self, folder: Callable[[], Path]) -> None:
        try:
            self._agent.save(folder() / TRAJECTORY_FILE)
        except OSError as error:
            _log.warning("%s could not be written: %s", TRAJECTORY_FILE, error)


def new_agent(config: Config, endpoint: Endpoint, sandbox: Sandbox) -> DefaultAgent:
    """Return the package's agent; what its configuration does not say is as the package has it."""
    said = attrs.asdict(config.agent, filter=lambda _field, value: value is not None)
    return DefaultAgent(endpoint, sandbox, **said)
