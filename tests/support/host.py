"""Real sandboxes of `host_process`, and a way to see what they left running."""

import os
import random
import time
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.host_process import HostProcess, HostProcessParams
from agentcompass.records import Lease, ProcessIdentity


def lease(env: HostProcess, name: str = "one", *, keep: bool = False) -> Lease:
    return Lease(
        id=f"{name}-{random.randrange(10**9)}",
        run_id="run",
        task_id="task",
        environment=env.id,
        name=name,
        created_at="2026-01-01T00:00:00Z",
        expires_at="2026-01-02T00:00:00Z",
        owner=ProcessIdentity(boot_id="boot", pid=os.getpid(), started=1),
        details=env.lease_details(),
        keep=keep,
    )


def host(root: Path, **params) -> HostProcess:
    return HostProcess(HostProcessParams(root=str(root), **params))


@asynccontextmanager
async def sandbox(root: Path, plan: SandboxPlan | None = None, **params):
    env = host(root, **params)
    async with env.open(plan or SandboxPlan(), lease(env)) as session:
        yield session


def new_mark() -> str:
    """A duration for `sleep` that nobody else uses, by which its process is found again."""
    return f"{random.randrange(3000, 4000)}.{random.randrange(10**9):09}"


def alive(mark: str) -> list[int]:
    """Processes with the mark in their arguments; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and int(entry) != os.getpid():
                found.append(int(entry))
    return found


def is_running(pid: int | str) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


async def gone(mark: str, seconds: float = 2.0) -> bool:
    """Whether nothing with the mark is left within some seconds."""
    return await eventually(lambda: not alive(mark), seconds)


async def eventually(is_so, seconds: float = 2.0) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        await trio.sleep(0.01)
    return True


HEADLESS = """
import ctypes, os, sys, threading, time
def beat():
    while True:
        with open("beats", "a") as file:
            file.write("x")
        time.sleep(0.02)
if os.fork() or os.fork():
    os._exit(0)
os.setsid()
threading.Thread(target=beat).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
"""A daemon whose first thread ends, which makes it look dead, while another goes on and writes to `beats`."""


async def beats(session) -> int:
    """How often it has written."""
    return len(await session.read_bytes("beats")) if await session.exists("beats") else 0


async def is_beating(session) -> bool:
    """Whether a daemon of `HEADLESS` is at work."""
    before = await beats(session)
    await trio.sleep(0.3)
    return await beats(session) > before
