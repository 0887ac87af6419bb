"""Real runs of the program in containers: tasks with commands that keep a container busy, and what is left of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import attrs
import trio

from agentcompass.components.environments.docker.config import LEASE_LABEL
from agentcompass.containers import life, resources
from agentcompass.containers.client import connect
from support.commandline import Program
from support.docker import engine_host, python_image

BUSY = "(setsid sleep 1000 >/dev/null 2>&1 &) ; trap '' TERM ; while :; do :; done"
"""A command that ends by no signal but SIGKILL, with a daemon."""


@attrs.define
class DockerRuns:
    """Tasks that each run a command in a container of their own, in a folder of their own."""

    folder: Path
    command: str = "true"
    count: int = 8
    at_once: int = 4
    host: str = attrs.field(factory=engine_host)
    image: str = attrs.field(factory=python_image)
    env_params: dict = attrs.field(factory=dict)
    options: tuple[str, ...] = ()
    environ: dict = attrs.field(factory=dict)
    benchmark: str = "jsonl"
    program: Program = attrs.field(init=False)

    def __attrs_post_init__(self):
        self.program = Program(self.folder)
        with (self.folder / "tasks.jsonl").open("w") as file:
            for number in range(self.count):
                task = {
                    "id": f"task-{number}",
                    "prompt": "x",
                    "command": self.command,
                    "solution": "y",
                }
                file.write(json.dumps(task) + "\n")

    def arguments(self, *options: str) -> tuple[str, ...]:
        return (
            "run", self.benchmark, "oracle", "none", "--env", "docker",
            "--benchmark-params", json.dumps({"path": "tasks.jsonl"}),
            "--env-params", json.dumps(
                {"image": self.image, "host": self.host, "network": "none", **self.env_params}
            ),
            "--task-concurrency", str(self.at_once), "--results-dir", "results",
            *self.options, *options,
        )  # fmt: skip

    def start(self, *options: str):
        return self.program.start(*self.arguments(*options), environ=self.environ)

    def run(self, *options: str):
        return self.program(*self.arguments(*options), **self.environ)

    def leases(self) -> list[dict]:
        files = (self.folder / "results").glob("*/*/leases/*.json")
        return [json.loads(file.read_text()) for file in files]

    def records(self) -> list[dict]:
        return [
            json.loads(line)
            for journal in sorted((self.folder / "results").glob("*/*/attempts.jsonl"))
            for line in journal.read_bytes().split(b"\n")[:-1]
        ]

    def run_ids(self) -> list[str]:
        return [path.name for path in (self.folder / "results").glob("*/*")]

    def containers(self, *, running: bool = False) -> list[str]:
        """Names of the containers of these runs."""
        return [
            found.name
            for found in trio.run(_labelled, self.host)
            if found.labels["agentcompass.run"] in self.run_ids()
            and (not running or found.status == "running")
        ]

    def resources(self) -> list[str]:
        """Names of their networks and volumes."""

        async def listed():
            async with connect(self.host) as docker:
                return [
                    *await resources.listed_networks(docker, LEASE_LABEL),
                    *await resources.listed_volumes(docker, LEASE_LABEL),
                ]

        ours = self.run_ids()
        return [one.name for one in trio.run(listed) if one.labels["agentcompass.run"] in ours]

    def await_containers(self, count: int, seconds: float = 60.0) -> None:
        """Wait until so many run."""
        end = time.monotonic() + seconds
        while len(self.containers(running=True)) < count:
            assert time.monotonic() < end, "the containers do not start"
            time.sleep(0.1)


async def _labelled(host):
    async with connect(host) as docker:
        return await life.listed(docker, LEASE_LABEL)
