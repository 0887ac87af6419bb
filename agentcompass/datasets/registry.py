"""A Harbor registry: a JSON list of data sets, each a list of directories of git repositories.

Source: the registry's own published file, https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import trio

from agentcompass.data import frozen
from agentcompass.datasets import git
from agentcompass.datasets.names import checked_path
from agentcompass.datasets.shelf import Shelf
from agentcompass.datasets.sources import GitSource, RegistrySource
from agentcompass.datasets.web import Request, Web
from agentcompass.errors import ConfigurationError, PreflightError, did_you_mean

HEAD: Final = "head"
_NUMBER: Final = re.compile(r"\d+")


@frozen(kw_only=True)
class ListedTask:
    """A task of a registry."""

    name: str
    url: str
    revision: str
    path: str


async def fill(source: RegistrySource, shelf: Shelf, tell: Callable[[str], None]) -> str:
    """Fetch the tasks of a data set into `shelf.files`, a directory each; return its version and a hash of their list.

    A task whose name has a `/` in it gets a directory with `__` in its place.

    Raises:
        PreflightError: The registry, the data set, or a repository of it cannot be had.
    """
    listed = await _dataset(source, tell)
    version, tasks = str(listed["version"]), _tasks(source, listed)
    await trio.to_thread.run_sync(shelf.clear)
    repositories: defaultdict[tuple[str, str], defaultdict[str, list[Path]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for task in tasks:
        places = repositories[task.url, task.revision][task.path]
        places.append(shelf.files / task.name.replace("/", "__"))
    for number, ((url, revision), wanted) in enumerate(repositories.items(), 1):
        tell(f"{source}: repository {number} of {len(repositories)}")
        await git.check_out(url, revision, wanted, shelf, tell)
    identity = json.dumps([[task.name, task.url, task.revision, task.path] for task in tasks])
    return f"{version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


async def _dataset(source: RegistrySource, tell: Callable[[str], None]) -> Mapping[str, Any]:
    """Return the registry's entry."""
    web = Web(tell)
    try:
        reply = await web.read(Request(url=source.url), str(source))
    finally:
        await web.aclose()
    if reply.status != httpx.codes.OK:
        raise PreflightError(
            f"{source}: the registry {source.url} answered {reply.status}",
            hint="Check the URL of the registry.",
        )
    entries = await trio.to_thread.run_sync(reply.json, str(source))
    if not isinstance(entries, list):
        raise PreflightError(f"{source}: {source.url} is no registry: it is no list of data sets")
    named = [
        entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]
    versions = {str(entry.get("version")): entry for entry in named if entry["name"] == source.name}
    if not versions:
        near = did_you_mean(source.name, {entry["name"] for entry in named})
        raise PreflightError(f"the registry {source.url} has no data set {source.name!r}{near}")
    version = source.version or newest(versions)
    if version not in versions:
        near = did_you_mean(version, versions)
        raise PreflightError(
            f"the registry {source.url} has no version {version!r} of {source.name}{near}"
        )
    return {**versions[version], "version": version}


def newest(versions: Iterable[str]) -> str:
    """Return `head` if it is among the versions, else the one whose numbers are highest. Pure."""
    there = list(versions)
    if HEAD in there:
        return HEAD
    return max(there, key=lambda version: ([int(n) for n in _NUMBER.findall(version)], version))


def _tasks(source: RegistrySource, listed: Mapping[str, Any]) -> list[ListedTask]:
    """Read the entry's tasks."""
    rows = listed.get("tasks")
    if not isinstance(rows, list) or not rows:
        raise PreflightError(f"{source}: the registry lists no tasks")
    tasks = [_task(source, row) for row in rows]
    names = [task.name.replace("/", "__").lower() for task in tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PreflightError(f"{source}: the registry lists two tasks named {twice!r}")
    return tasks


def _task(source: RegistrySource, row: object) -> ListedTask:
    fields = row if isinstance(row, dict) else {}
    try:
        name = str(checked_path(str(fields.get("name") or ""), "the name of a task"))
        place = GitSource(
            url=str(fields.get("git_url") or ""),
            revision=str(fields.get("git_commit_id") or "HEAD"),
            path=str(fields.get("path") or "").strip("/").removeprefix("./"),
        )
    except ConfigurationError as error:
        shown = str(fields.get("name") or row)[:100]
        raise PreflightError(
            f"{source}: the registry's task {shown!r} cannot be used: {error.message}"
        ) from None
    return ListedTask(name=name, url=place.url, revision=place.revision, path=place.path)
