"""`orchestration.json`: how a launch and each of its requests stand, while it runs and afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import attrs

from agentcompass.data import frozen
from agentcompass.errors import StoreError
from agentcompass.records import (
    JSON,
    SCHEMA_VERSION,
    OrchestrationStatus,
    ProcessIdentity,
    RequestStatus,
)
from agentcompass.regular import read_regular
from agentcompass.store import codec, jsonl, layout
from agentcompass.store.files import explained, replace_file
from agentcompass.store.identity import is_alive
from agentcompass.store.lock import RunLock, is_held

FILE_NAME = "orchestration.json"
LOCK_NAME = "orchestration.lock"

RequestState: TypeAlias = Literal["preparing", "running"] | RequestStatus


@frozen(kw_only=True)
class RequestEntry:
    """How one request stands."""

    run_id: str
    """Of its run."""
    status: RequestState = "preparing"
    """How it stands."""
    run_dir: str | None = None
    """None before it has one."""
    metric: str | None = None
    """What `score` is of: the benchmark's primary metric."""
    score: float | None = None
    """None until it is over, and where there is none."""
    ci95: tuple[float, float] | None = None
    """95 % confidence interval of `score`."""
    coverage: float | None = None
    """Share of the planned attempts that were graded, 0 to 1; None until it is over, and if it never began."""
    error: str | None = None
    """Why it did not complete."""
    paths: Mapping[str, str] = attrs.field(factory=dict)
    """Its files, by role."""


@frozen(kw_only=True)
class OrchestrationInfo:
    """A launch. `orchestration.json`."""

    id: str
    """Made from time and chance."""
    name: str
    """Of the orchestration; its id if it has none."""
    started_at: str
    """ISO 8601, UTC."""
    owner: ProcessIdentity
    """The process that executes it: when it is gone and `status` is `running`, the launch was interrupted."""
    requests: Mapping[str, RequestEntry]
    """By name, in the order of the spec."""
    status: Literal["running"] | OrchestrationStatus = "running"
    """How it stands."""
    finished_at: str | None = None
    """None while it runs."""
    ended_by: str | None = None
    """Who ended it early; None while it runs, and when it ran to its end."""
    schema: int = SCHEMA_VERSION


@frozen(kw_only=True)
class StoredOrchestration:
    """A launch on disk, as its file says."""

    directory: Path
    info: OrchestrationInfo

    @property
    def is_running(self) -> bool:
        """Whether the process that executes it is at work now."""
        return self.info.status == "running" and (
            is_alive(self.info.owner) or is_held(self.directory / LOCK_NAME)
        )

    @property
    def status(self) -> Literal["running", "interrupted"] | OrchestrationStatus:
        """As the file says, but `interrupted` when it says `running` and nobody is at work."""
        if self.info.status == "running" and not self.is_running:
            return "interrupted"
        return self.info.status


def read_orchestration(directory: Path) -> StoredOrchestration:
    """Read how a launch stands.

    Raises:
        StoreError: There is no `orchestration.json`, or it is corrupt or of a newer version.
    """
    path = directory / FILE_NAME
    with explained("read", path):
        data = read_regular(path)
    try:
        return StoredOrchestration(directory=directory, info=_from_json(jsonl.decode(data)))
    except ValueError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


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


def _from_json(data: JSON) -> OrchestrationInfo:
    written = codec.mapping(data, FILE_NAME)
    owner = codec.build(ProcessIdentity, written.get("owner"))
    requests = {
        name: _entry_from_json(entry)
        for name, entry in codec.mapping(written.get("requests"), "requests").items()
    }
    return codec.build(OrchestrationInfo, written, owner=owner, requests=requests)


def _entry_from_json(data: JSON) -> RequestEntry:
    entry = codec.build(RequestEntry, data)
    return attrs.evolve(entry, ci95=entry.ci95 and (entry.ci95[0], entry.ci95[1]))


def _to_json(info: OrchestrationInfo, scrub: jsonl.Scrub) -> dict[str, JSON]:
    requests = {name: _entry(entry, scrub) for name, entry in info.requests.items()}
    return codec.to_dict(info) | {"owner": codec.to_dict(info.owner), "requests": requests}


def _entry(entry: RequestEntry, scrub: jsonl.Scrub) -> dict[str, Any]:
    return codec.to_dict(entry) | {"error": None if entry.error is None else scrub(entry.error)}
