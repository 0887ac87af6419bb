"""Models that have an installed agent solve a task: what they say depends on what the agent tells them it has done."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path

from agentcompass.testing import Seen, error, message, response, streamed

PROGRAMS = Path(tempfile.gettempdir(), "agentcompass-test-programs")
"""Where the real agents are kept, fetched once for all runs of the tests on this machine."""

SOLUTION = "def add(x: int, y: int):\n    return x + y\n"
CHECK = f"cat > solution.py <<'EOF'\n{SOLUTION}EOF\npython3 -c 'from solution import add; print(6 * add(3, 4))'"
"""A command that writes the solution of HumanEval/53 to a file, and uses it."""
CHECKED = "42"
ANSWER = f"It works:\n```python\n{SOLUTION}```"


class Solver:
    """A behaviour of the endpoint, by the protocol of the path.

    Attributes:
        outputs: What the agent told of its commands.
        gate: Awaited before the second answer.
    """

    def __init__(self):
        self.outputs: list[str] = []
        self.gate: threading.Event | None = None

    def __call__(self, seen: Seen):
        if seen.json == {}:  # whether there is such a path
            return error(400, "no messages")
        return self._messages(seen) if "/messages" in seen.target else self._responses(seen)

    def _messages(self, seen):
        done = [
            block
            for turn in seen.json["messages"]
            for block in (turn["content"] if isinstance(turn["content"], list) else [])
            if block["type"] == "tool_result"
        ]
        if not done:
            call = ("Bash", {"command": CHECK, "description": "Try it"})
            return streamed(message("I try it.", tool_calls=[call], thinking="Easy."))
        return self._second(json.dumps(done[0]["content"]), message)

    def _responses(self, seen):
        done = [item for item in seen.json["input"] if item["type"] == "function_call_output"]
        if not done:
            call = ("exec_command", json.dumps({"cmd": CHECK}))
            return streamed(response("I try it.", tool_calls=[call], reasoning="Easy."))
        return self._second(json.dumps(done[0]["output"]), response)

    def _second(self, output, say):
        self.outputs.append(output)
        answer = streamed(say(ANSWER if CHECKED in output else "It does not work."))
        return answer.but(gate=self.gate) if self.gate is not None else answer
