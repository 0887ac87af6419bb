"""A program that does what a test says, in the place of an installed agent, and its harness in a real sandbox.

What it does is a list of words: `ask` (one model call), `say` (an event), `raw` (a line as it is), `complain` (on standard error),
`long` (a line of so many bytes), `much` (an answer of so many), `repeat` (what it was told, as its answer), `show` (a variable, as its answer), `wait` (for
ever, with a child), `exit`.
"""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

from agentcompass.components.base import TaskInput
from agentcompass.components.harnesses.claude_code.harness import ClaudeCode, ClaudeCodeParams
from agentcompass.components.messages import Message
from support.host import sandbox
from support.opened import Opened

PROGRAM = f"""#!{sys.executable}
import json, os, subprocess, sys, time, urllib.error, urllib.request

told = sys.stdin.read()

def ask():
    body = json.dumps({{"messages": [{{"role": "user", "content": told[:100]}}], "stream": True}})
    headers = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"]}}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    try:
        urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)).read()
    except urllib.error.HTTPError as error:
        error.read()

def out(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

def answer(text):
    out(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": text}}))

for word, *more in json.loads(os.environ["WORDS"]):
    if word == "ask":
        ask()
    elif word == "say":
        out(json.dumps(more[0]))
    elif word == "raw":
        out(more[0])
    elif word == "complain":
        sys.stderr.write(more[0])
    elif word == "long":
        out("x" * more[0])
    elif word == "much":
        answer("y" * more[0])
    elif word == "repeat":
        answer(told)
    elif word == "show":
        answer(os.environ.get(more[0], "nothing"))
    elif word == "arguments":
        answer(json.dumps(sys.argv[1:]))
    elif word == "wait":
        subprocess.Popen(["sleep", more[0]], start_new_session=True)
        out("waiting")
        time.sleep(1000)
    elif word == "exit":
        sys.exit(more[0])
"""


def result(text="done", **more):
    """The event with which an agent ends."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 1,
        "result": text,
        **more,
    }


def tool_result(call_id, text, **more):
    """The event that tells of a tool call."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": False}
    return {"type": "user", "message": {"role": "user", "content": [{**block, **more}]}}


class Steps(list):
    """An `Emit` that remembers."""

    async def __call__(self, step):
        self.append(json.loads(json.dumps(step)))

    def of(self, kind):
        return [step for step in self if step["type"] == kind]


class Attempt:
    """An attempt of the program at a task, in a sandbox of this machine.

    Attributes:
        session: Of the sandbox.
        model: That it is lent.
        steps: That it wrote.
    """

    def __init__(self, session, model, program):
        self.session, self.model, self.program = session, model, program
        self.steps = Steps()

    async def run(self, *words, task="Do it.", **params):
        """Let the program do what the words say; returns the outcome."""
        params.setdefault("program", self.program)
        harness = ClaudeCode(
            ClaudeCodeParams(
                install="image",
                env_variables={"WORDS": json.dumps(words), **params.pop("env_variables", {})},
                **params,
            )
        )
        task_input = TaskInput(messages=(Message(role="user", content=task),))
        return await harness.run(task_input, self.session, self.model, self.steps)


@asynccontextmanager
async def attempt(folder, endpoint, **opened):
    folder.mkdir(exist_ok=True)
    program = folder / "agent"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    async with (
        Opened(endpoint, protocols=("anthropic",), **opened) as client,
        sandbox(folder / "sandboxes") as session,
    ):
        yield Attempt(session, client.model, str(program))
