"""`orchestration.json`: how a launch and each of its requests stand, while it runs and afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import attrs

from agentcompass.errors import StoreError
from agentcompass.records import (
    JSON,
    SCHEMA_VERSION,
    OrchestrationStatus,
    ProcessIdentity,
    RequestStatus,
)
from agentcompass.store import codec, jsonl, layout
from agentcompass.store.files import explained, replace_file
from agentcompass.store.lock import RunLock

FILE_NAME = "orchestration.json"
LOCK_NAME = "orchestration.lock"

RequestState: TypeAlias = Literal["preparing", "running"] | RequestStatus


@attrs.frozen(kw_only=True)
class RequestEntry:
    """How one request stands."""

    run_id: str
    status: RequestState = "preparing"
    run_dir: str | None = None
    """None before it has one."""
    metric: str | None = None
    """What `score` is of: the benchmark's primary metric."""
    score: float | None = None
    """None until it is over, and where there is none."""
    ci95: tuple[float, float] | None = None
    coverage: float | None = None
    """Share of the planned attempts that were graded, 0 to 1; None until it is over, and if it never began."""
    error: str | None = None
    paths: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class OrchestrationInfo:
    """A launch. `orchestration.json`."""

    id: str
    name: str
    started_at: str
    """ISO 8601, UTC."""
    owner: ProcessIdentity
    """The process that executes it: when it is gone and `status` is `running`, the launch was interrupted."""
    requests: Mapping[str, RequestEntry]
    """By name, in the order of the spec."""
    status: Literal["running"] | OrchestrationStatus = "running"
    finished_at: str | None = None
    ended_by: str | None = None
    """Who ended it early; None while it runs, and when it ran to its end."""
    schema: int = SCHEMA_VERSION


@final
class OrchestrationFile:
    """The file of one launch. Blocking; used by one thread at a time.

    It stands in the directory of the launch's name, or, while another launch of that name is under way there, in that
    of its id. So two of one name never replace each other's file while they run; one that is over is replaced.

    Args:
        results_dir: The root of all results.
        info: As it stands at the start.
        scrub: Removes secrets from errors.

    Raises:
        StoreError: It cannot be written in either place.
    """

    def __init__(self, results_dir: Path, info: OrchestrationInfo, scrub: jsonl.Scrub) -> None:
        self._scrub = scrub
        try:
            self._lock = _locked(layout.orchestration_dir(results_dir, info.name))
        except StoreError:
            self._lock = _locked(layout.orchestration_dir(results_dir, info.id))
        self.path = self._lock.path.with_name(FILE_NAME)
        self.update(info)

    def update(self, info: OrchestrationInfo) -> None:
        """Replace the file, so that readers find the old state or the new one, whole.

        Raises:
            StoreError: It cannot be written; the old one stands.
        """
        data = jsonl.plain(_to_json(info, self._scrub))
        text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
        with explained("write", self.path):
            # A lone surrogate can only stand inside a JSON string, where this is the right escape for it.
            replace_file(self.path, f"{text}\n".encode(errors="backslashreplace"), sync=True)

    def close(self) -> None:
        """Let another launch of the same name have the place."""
        self._lock.release()


def _locked(directory: Path) -> RunLock:
    with explained("create", directory):
        directory.mkdir(parents=True, exist_ok=True)
    return RunLock(directory / LOCK_NAME)


def _to_json(info: OrchestrationInfo, scrub: jsonl.Scrub) -> dict[str, JSON]:
    requests = {name: _entry(entry, scrub) for name, entry in info.requests.items()}
    return codec.to_dict(info) | {"owner": codec.to_dict(info.owner), "requests": requests}


def _entry(entry: RequestEntry, scrub: jsonl.Scrub) -> dict[str, Any]:
    return codec.to_dict(entry) | {"error": None if entry.error is None else scrub(entry.error)}
