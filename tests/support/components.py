"""Components made from parameters as users write them, and real sandboxes to use them in."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentcompass.components.base import Component, LoadContext, SandboxPlan, Session
from agentcompass.components.registry import load
from agentcompass.records import Lease, ProcessIdentity
from agentcompass.spec import codec, tree
from agentcompass.spec.problems import Problems

C = TypeVar("C", bound=Component[Any])


def make(cls: type[C], **params: object) -> C:
    """Return a component with checked parameters; ConfigurationError as for a user."""
    problems = Problems()
    written = tree.from_python(params, tree.Origin(layer="argument", where="params"), problems)
    structured = codec.structure(written, cls.Params, problems)
    problems.raise_if_any()
    return cls(structured)


def context(data_dir: Path, **fields: Any) -> LoadContext:
    """Return what a benchmark loads its tasks with."""
    return LoadContext(data_dir=data_dir, **fields)


@asynccontextmanager
async def open_session(
    folder: Path, environment: Mapping[str, object] | None = None
) -> AsyncIterator[Session]:
    """Open a sandbox of `host_process` below a folder."""
    host = make(load("environment", "host_process"), **(environment or {}))
    lease = Lease(
        id="lease",
        run_id="run",
        task_id="task",
        environment="host_process",
        name=f"agentcompass-test-{secrets.token_hex(4)}",
        created_at="2030-01-01T00:00:00Z",
        expires_at="2030-01-02T00:00:00Z",
        owner=ProcessIdentity(boot_id="boot", pid=1, started=1),
        details=host.lease_details(),
    )
    async with host.open(SandboxPlan(), lease) as session:
        yield session
