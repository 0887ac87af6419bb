"""The harness `terminus2` at work: replies of a scripted model, in real sandboxes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import attrs

from agentcompass.components.base import AgentOutcome, TaskInput
from agentcompass.components.harnesses.terminus2.harness import Terminus2
from agentcompass.components.messages import Message
from agentcompass.components.models.client import open_client
from agentcompass.testing import FakeEndpoint, chat, error
from support.components import make, open_session
from support.docker import engine_host, import_image
from support.requests import model_config

TOLD = TaskInput(messages=(Message(role="user", content="Do it."),))
PROMPT = re.compile(r"[$#]$", re.MULTILINE)
"""Of a shell that waits, with nothing behind it."""
TOO_LONG = error(400, "too long", code="context_length_exceeded")


def plan(*commands, done=False, **fields):
    """A reply in the JSON form. A command is keystrokes, or keystrokes and a duration."""
    listed = []
    for command in commands:
        keystrokes, duration = (command, 0.1) if isinstance(command, str) else command
        listed.append({"keystrokes": keystrokes, "duration": duration})
    said = {"analysis": "a", "plan": "p", "commands": listed, "task_complete": done, **fields}
    return json.dumps({key: value for key, value in said.items() if value is not None})


DONE = plan(done=True, analysis="All is done.")


@attrs.define
class Script:
    """A model that goes on to the next reply when the terminal has shown what the last one was to bring about.

    Args:
        turns: Replies, or pairs of a reply and a text, or a pattern, that the terminal shows afterwards.
    """

    turns: list
    seen: str = ""
    awaited: str | re.Pattern = ""
    at: int = 0
    looks: int = 0

    def __call__(self, request):
        content = request.json["messages"][-1]["content"]
        self.seen += content if isinstance(content, str) else content[-1]["text"]
        if not self._has_come():
            self.looks += 1
            if self.looks > 100:
                raise AssertionError(f"{self.awaited!r} was never shown, but {self.seen[-3000:]}")
            return chat(plan(("", 0.2)))
        turn = self.turns[self.at] if self.at < len(self.turns) else DONE
        self.at += 1
        reply, self.awaited = (turn, "") if not isinstance(turn, tuple) else turn
        self.seen, self.looks = "", 0
        return chat(reply) if isinstance(reply, str) else reply

    def _has_come(self):
        if isinstance(self.awaited, str):
            return self.awaited in self.seen
        return self.awaited.search(self.seen) is not None


@attrs.define
class Kept:
    """Takes steps and files as the engine does."""

    place: Path
    steps: list = attrs.field(factory=list)

    async def __call__(self, step):
        self.steps.append(json.loads(json.dumps(step, allow_nan=False)))

    def folder(self):
        self.place.mkdir(parents=True, exist_ok=True)
        return self.place


@attrs.frozen
class Attempt:
    """What came of an attempt: the outcome, the steps, the bodies of the requests, and the recording."""

    outcome: AgentOutcome
    steps: list
    asked: list
    recording: list

    def of(self, kind):
        return [step for step in self.steps if step["type"] == kind]

    @property
    def outputs(self):
        return [step["output"] for step in self.of("tool")]

    @property
    def told(self):
        """The last message of each request."""
        return [body["messages"][-1]["content"] for body in self.asked]

    @property
    def typescript(self):
        """All that was recorded of the terminal."""
        return "".join(data for _at, kind, data in self.recording[1:] if kind == "o")


async def attempt(session, folder, behaviour, *, told=TOLD, **params):
    """Let a scripted model work in a sandbox.

    Args:
        session: The sandbox.
        folder: Gets the files.
        behaviour: Of the endpoint; a list is a `Script`.
        told: The task.
        params: Of the harness.
    """
    if isinstance(behaviour, list):
        behaviour = Script(behaviour)
    kept = Kept(Path(folder, "kept"))
    with FakeEndpoint(behaviour) as endpoint:
        config = model_config(base_url=endpoint.base_url, max_retries=0)
        client = open_client(config, harness_protocols=Terminus2.protocols, prices={})
        try:
            model = client.lend(lambda _retry: None)
            outcome = await make(Terminus2, **params).run(told, session, model, kept)
        finally:
            await client.aclose()
        asked = [seen.json for seen in endpoint.requests]
    file = kept.place / "recording.cast"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return Attempt(outcome, kept.steps, asked, [json.loads(line) for line in lines])


@contextlib.asynccontextmanager
async def workspace(tmp_path, **environment):
    """A sandbox of `host_process`."""
    async with open_session(tmp_path, {"root": str(tmp_path), **environment}) as session:
        yield session


@functools.cache
def busybox_image():
    """An image with all of BusyBox under the names of its programs, and nothing else: no tmux, no glibc, no locale."""
    program = Path("/bin/busybox").read_bytes()
    names = subprocess.run(
        ["/bin/busybox", "--list"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("proc", 0o755), ("tmp", 0o1777), ("etc", 0o755)):
            _add(tar, name, type=tarfile.DIRTYPE, mode=mode)
        _add(tar, "bin/busybox", program, mode=0o755)
        for name in names:
            if name != "busybox":
                _add(tar, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    digest = hashlib.sha256(file.getvalue()).hexdigest()[:16]
    return import_image(engine_host(), f"busybox-all:{digest}", file.getvalue())


def _add(tar, name, content=b"", **attributes):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in attributes.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(content))
