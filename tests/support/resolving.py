"""Resolving with everything that is taken from outside fixed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentcompass.errors import ConfigurationError
from agentcompass.options import LaunchOptions, RunOptions
from agentcompass.plan.resolve import LaunchFlags, resolve_launch, resolve_run
from agentcompass.spec.resolved import Orchestration
from agentcompass.spec.written import OrchestrationSpec

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "20300102T030405Z-abc123"
GIVEN: dict[str, Any] = {
    "benchmark": "humaneval",
    "harness": "openai_chat",
    "model": "m",
    "model_base_url": "http://127.0.0.1:9/v1",
}


def run(
    cwd: Path, environ: Mapping[str, str] | None = None, *, as_flags: bool = False, **given: Any
) -> Orchestration:
    """Resolve a single evaluation with the least it needs, and what is given."""
    return resolve_run(
        RunOptions(**{**GIVEN, **given}),
        cwd=cwd,
        environ=environ or {},
        now=NOW,
        random_suffix="abc123",
        as_flags=as_flags,
    )


def launch(
    spec: OrchestrationSpec | Path | str,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    *,
    flags: LaunchFlags | None = None,
    **given: Any,
) -> Orchestration:
    """Resolve an orchestration: an object, a file, or the text of one."""
    if isinstance(spec, str):
        (cwd / "spec.yaml").write_text(spec)
        spec = Path("spec.yaml")
    return resolve_launch(
        spec,
        LaunchOptions(**given),
        cwd=cwd,
        environ=environ or {},
        now=NOW,
        random_suffix="abc123",
        flags=flags,
    )


def problems_of(resolve: Any, *args: Any, **kwargs: Any) -> list[str]:
    """Return the lines of the error that resolving raises."""
    with pytest.raises(ConfigurationError) as caught:
        resolve(*args, **kwargs)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()
