"""Attempts of the harness `mini_swe_agent` against a scripted endpoint, in real sandboxes. Loads the package itself."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from agentcompass.components.base import AgentOutcome, TaskInput
from agentcompass.components.harnesses.mini_swe_agent.harness import MiniSweAgent
from agentcompass.components.messages import Message
from agentcompass.testing import FakeEndpoint, chat
from support.components import make, open_session
from support.opened import Opened

TOLD = TaskInput(messages=(Message(role="user", content="Fix it."),))
DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def bash(command):
    return ("bash", json.dumps({"command": command}))


def says(*commands, text="THOUGHT", **fields):
    """A reply with commands."""
    return chat(text, tool_calls=[bash(command) for command in commands], **fields)


def submits(text="done"):
    return says(f"{DONE} && printf %s '{text}'")


class Kept:
    """What an attempt keeps: steps, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.steps = []
        self._folder = folder

    async def __call__(self, step):
        self.steps.append(json.loads(json.dumps(step, allow_nan=False)))

    def folder(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder


@attrs.define
class Attempt:
    """What came of it: the outcome, the steps, the bodies of the requests, and the package's own trajectory."""

    outcome: AgentOutcome | None
    steps: list
    asked: list
    own: dict | None

    def of(self, kind):
        return [step for step in self.steps if step["type"] == kind]

    @property
    def outputs(self):
        return [step["output"] for step in self.of("tool")]


async def ready(**params) -> MiniSweAgent:
    """A harness that can work."""
    harness = make(MiniSweAgent, **params)
    await harness.preflight()
    return harness


async def attempt(
    tmp_path, *reactions, told=TOLD, session=None, protocol="openai-chat", prices=None, **params
) -> Attempt:
    """Let it work on a task, in a sandbox of `host_process` unless another is given."""
    harness, kept = await ready(**params), Kept(tmp_path / "kept")
    more = {} if prices is None else {"prices": prices}
    with FakeEndpoint(list(reactions)) as endpoint:
        async with (
            Opened(
                endpoint,
                protocols=harness.protocols,
                api_protocol=(protocol,),
                max_retries=0,
                **more,
            ) as opened,
            _sandbox(tmp_path, session) as box,
        ):
            outcome = await harness.run(told, box, opened.model, kept)
        asked = [seen.json for seen in endpoint.requests]
    return Attempt(outcome, kept.steps, asked, own_trajectory(tmp_path / "kept"))


@asynccontextmanager
async def _sandbox(tmp_path, session):
    if session is not None:
        yield session
    else:
        async with open_session(tmp_path, {"root": str(tmp_path)}) as opened:
            yield opened


def own_trajectory(folder: Path):
    """What the package itself has kept in a folder, or below."""
    found = list(folder.rglob("mini-swe-agent.traj.json"))
    return json.loads(found[0].read_text()) if found else None


def agents_at_work() -> list[str]:
    """The threads in which an agent works."""
    return [thread.name for thread in threading.enumerate() if thread.name == MiniSweAgent.id]
