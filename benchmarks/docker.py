"""The environment `docker` beside the bare Engine API: opening, one command and closing; and the end of a cancelled run.

The engine is that of the tests (`tests/support/docker.py`). Engine and program share the machine, so only ratios count;
each pair takes turns, and the best of each counts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import measure

BUSY = "(setsid sleep 1000 >/dev/null 2>&1 &) ; trap '' TERM ; while :; do :; done"
ROUNDS = {1: 8, 32: 3}
"""By the number of containers at once."""


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the tables and return the figures."""
    sys.path.insert(0, str(measure.ROOT / "tests"))
    from support.docker import engine_host, python_image

    host, image = engine_host(), python_image()
    figures: dict[str, Any] = {}
    for at_once in (1, 4) if quick else (1, 32):
        rounds = 2 if quick else ROUNDS[at_once]
        ours, floor = _best(rounds, lambda n=at_once: _both(host, image, n))
        figures[f"open_exec_close_{at_once}"] = {"seconds": ours, "floor_seconds": floor}
    count = 6 if quick else 50
    ours, floor = _best(
        1 if quick else 2, lambda: (_cancelled(host, image, count), _removed(host, image, count))
    )
    figures[f"cancel_{count}"] = {"seconds": ours, "floor_seconds": floor}
    rows = [
        [name, f"{f['seconds']:.2f}", f"{f['floor_seconds']:.2f}", f"{f['seconds'] / f['floor_seconds']:.2f}"]
        for name, f in figures.items()
    ]  # fmt: skip
    print(measure.table(["", "seconds", "bare API", "ratio"], rows))
    return figures


def _best(times: int, measure_both: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    pairs = [measure_both() for _ in range(times)]
    return min(ours for ours, _ in pairs), min(floor for _, floor in pairs)


def _both(host: str, image: str, at_once: int) -> tuple[float, float]:
    return _timed(lambda: _ours(host, image), at_once), _timed(_bare(host, image), at_once)


def _timed(make: Callable[[], Callable[[], Awaitable[None]]], at_once: int) -> float:
    """How long it takes to do it so many times at once."""
    import trio

    async def main() -> float:
        one = make()
        started = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(one)
        return time.perf_counter() - started

    return trio.run(main)


def _ours(host: str, image: str) -> Callable[[], Awaitable[None]]:
    from agentcompass.components.base import SandboxPlan
    from support.docker_sandboxes import docker_env, docker_lease

    env = docker_env(host=host, image=image)

    async def one() -> None:
        async with env.open(SandboxPlan(), docker_lease(env)) as session:
            assert (await session.exec("echo hi")).stdout == "hi\n"

    return one


class Bare:
    """The Engine API by itself."""

    def __init__(self, host: str, image: str) -> None:
        import httpx

        transport = httpx.AsyncHTTPTransport(
            uds=host.removeprefix("unix://"), limits=httpx.Limits()
        )
        self.client = httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=300)
        self.image = image

    async def start(self, *command: str) -> str:
        """Make a container and start it."""
        host = {"Init": True, "NetworkMode": "none", "PidsLimit": 4096}
        body = {"Image": self.image, "Entrypoint": ["sleep"], "Cmd": ["3600"], "HostConfig": host}
        if command:
            body |= {"Entrypoint": command[:1], "Cmd": command[1:]}
        made = (await self.client.post("/containers/create", json=body)).json()["Id"]
        (await self.client.post(f"/containers/{made}/start")).raise_for_status()
        return str(made)

    async def exec(self, container: str, *command: str) -> None:
        """Run a command to its end."""
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": command}
        made = (await self.client.post(f"/containers/{container}/exec", json=body)).json()["Id"]
        output = (await self.client.post(f"/exec/{made}/start", json={"Detach": False})).content
        assert output.endswith(b"hi\n")
        assert (await self.client.get(f"/exec/{made}/json")).json()["ExitCode"] == 0

    async def remove(self, container: str) -> None:
        """Kill and remove a container."""
        answer = await self.client.delete(f"/containers/{container}", params={"force": 1, "v": 1})
        answer.raise_for_status()


def _bare(host: str, image: str) -> Callable[[], Callable[[], Awaitable[None]]]:
    def make() -> Callable[[], Awaitable[None]]:
        bare = Bare(host, image)

        async def one() -> None:
            made = await bare.start()
            await bare.exec(made, "sh", "-c", "echo hi")
            await bare.remove(made)

        return one

    return make


def _removed(host: str, image: str, count: int) -> float:
    """How long it takes to remove so many busy containers by the bare API, all at once."""
    import trio

    async def main() -> float:
        bare = Bare(host, image)
        made: list[str] = []

        async def start() -> None:
            made.append(await bare.start("sh", "-c", BUSY))

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(start)
        started = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for container in made:
                nursery.start_soon(bare.remove, container)
        return time.perf_counter() - started

    return trio.run(main)


def _cancelled(host: str, image: str, count: int) -> float:
    """How long it takes from Ctrl-C to the end of the program, with so many busy commands; nothing is left then."""
    from support.docker_runs import DockerRuns

    with tempfile.TemporaryDirectory() as folder:
        runs = DockerRuns(
            Path(folder), command=BUSY, count=count, at_once=count, host=host, image=image
        )
        child = runs.start("--cleanup-grace-seconds", "120")
        runs.await_containers(count, seconds=300)
        time.sleep(2)
        started = time.perf_counter()
        child.send_signal(signal.SIGINT)
        try:
            _, said = child.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        seconds = time.perf_counter() - started
        assert child.returncode == 130, said
        left = runs.containers()
        assert left == [], json.dumps(left)
        return seconds
