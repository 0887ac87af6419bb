"""Files of a repository of the Hugging Face hub, over its HTTP interface: no other program, no git, no git-lfs.

Source: https://huggingface.co/docs/hub/api and huggingface_hub's guide for environment variables. The list of files
(`/api/<kind>s/<repository>/tree/<commit>`) gives each file's size and checksum: the SHA-256 of what git-lfs keeps, of
other files the id of the git blob. `/resolve/<commit>/<path>` gives the content of either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote

import httpx
import trio

from agentcompass.data import frozen
from agentcompass.datasets.batch import Batch, Job
from agentcompass.datasets.download import FileRefusedError, Wanted
from agentcompass.datasets.names import inside
from agentcompass.datasets.shelf import Shelf
from agentcompass.datasets.sources import HubSource, is_commit
from agentcompass.datasets.web import Reply, Request, Web
from agentcompass.errors import PreflightError

ENDPOINT: Final = "https://huggingface.co"
_TRUE: Final = {"1", "ON", "YES", "TRUE"}
_NEXT: Final = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
_DIGEST: Final = re.compile(r"git:[0-9a-f]{40}|sha256:[0-9a-f]{64}")


@frozen(kw_only=True)
class HubSettings:
    """What the environment says about the hub, in the variables that its own client reads."""

    endpoint: str
    offline: bool
    token_file: Path | None
    token: str | None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> HubSettings:
        """Read the variables."""
        home = environ.get("HF_HOME") or str(
            Path(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
        )
        file = environ.get("HF_TOKEN_PATH") or str(Path(home, "token"))
        token = environ.get("HF_TOKEN") or environ.get("HUGGING_FACE_HUB_TOKEN")
        return cls(
            endpoint=(environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/"),
            offline=_is_set(environ, "HF_HUB_OFFLINE") or _is_set(environ, "TRANSFORMERS_OFFLINE"),
            token_file=None if _is_set(environ, "HF_HUB_DISABLE_IMPLICIT_TOKEN") else Path(file),
            token=token.strip() if token else None,
        )

    def private(self) -> dict[str, str]:
        """Return the header with the token, if there is one. Blocking."""
        token = self.token
        if token is None and self.token_file is not None:
            try:
                token = self.token_file.expanduser().read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError, RuntimeError):
                token = None
        return {"Authorization": f"Bearer {token}"} if token else {}


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").upper() in _TRUE


def is_offline() -> bool:
    """Whether the environment forbids to ask the hub."""
    return HubSettings.of(os.environ).offline


async def fill(source: HubSource, shelf: Shelf, tell: Callable[[str], None]) -> str:
    """Download what a source names into `shelf.files`; return the commit.

    Raises:
        PreflightError: It cannot be had; what has come is kept for the next try.
    """
    settings = HubSettings.of(os.environ)
    web = Web(tell)
    try:
        hub = _Hub(source, web, settings.endpoint, await trio.to_thread.run_sync(settings.private))
        commit = await hub.commit()
        jobs = [hub.job(entry, commit, shelf) for entry in await hub.entries(commit)]
        if not jobs:
            raise PreflightError(f"{source} has no such files: {', '.join(source.files) or 'none'}")
        await Batch(web, shelf, str(source)).get(jobs, hub.refused_file)
        await trio.to_thread.run_sync(_remove_others, shelf, {job.wanted.target for job in jobs})
    finally:
        await web.aclose()
    return commit


@final
class _Hub:
    """One repository of the hub."""

    def __init__(
        self, source: HubSource, web: Web, endpoint: str, private: Mapping[str, str]
    ) -> None:
        self._source, self._web, self._private = source, web, private
        self._api = f"{endpoint}/api/{source.kind}s/{source.repository}"
        prefix = "datasets/" if source.kind == "dataset" else ""
        self._content = f"{endpoint}/{prefix}{source.repository}/resolve"
        self._endpoint = endpoint

    async def commit(self) -> str:
        """Return the commit that the revision means now."""
        source = self._source
        if is_commit(source.revision):
            return source.revision
        reply = await self._ask(f"{self._api}/revision/{quote(source.revision, safe='')}")
        found = reply.json(str(source))
        commit = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(commit, str) or not is_commit(commit):
            raise PreflightError(f"{source}: {reply.url} does not say what commit it is")
        return commit

    async def entries(self, commit: str) -> list[Mapping[str, Any]]:
        """Return what the list of files says about each one that is wanted."""
        source, found = self._source, list[Mapping[str, Any]]()
        below = f"/{quote(source.path)}" if source.path else ""
        url: str | None = f"{self._api}/tree/{commit}{below}?recursive=true&expand=false"
        while url is not None:
            reply = await self._ask(url)
            page = reply.json(str(source))
            if not isinstance(page, list):
                raise PreflightError(f"{source}: {reply.url} is no list of files")
            found += [entry for entry in page if self._is_wanted(entry)]
            follows = _NEXT.search(reply.headers.get("link", ""))
            url = str(httpx.URL(url).join(follows[1])) if follows else None
        return found

    def _is_wanted(self, entry: object) -> bool:
        if not isinstance(entry, dict) or entry.get("type") != "file":
            return False
        name = self._below(entry)
        patterns = self._source.files
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)

    def _below(self, entry: Mapping[str, Any]) -> str:
        """The path of a file below the source's."""
        path, top = str(entry.get("path")), self._source.path
        if top and not path.startswith(f"{top}/"):
            raise PreflightError(f"{self._source} has a file that was not asked for: {path!r}")
        return path[len(top) + 1 :] if top else path

    def job(self, entry: Mapping[str, Any], commit: str, shelf: Shelf) -> Job:
        """Return how to get a file."""
        path, lfs = str(entry.get("path")), entry.get("lfs")
        size, digest = entry.get("size"), f"git:{entry.get('oid')}"
        if isinstance(lfs, dict):
            size = lfs.get("size", size)
            digest = f"sha256:{str(lfs.get('oid')).removeprefix('sha256:')}"
        if not isinstance(size, int) or _DIGEST.fullmatch(digest) is None:
            raise PreflightError(f"{self._source}: the list of files has no checksum of {path!r}")
        target = inside(shelf.files, self._below(entry), str(self._source))
        url = f"{self._content}/{commit}/{quote(path)}"
        return Job(
            wanted=Wanted(name=path, target=target, size=size, digest=digest),
            request=Request(url=url, private=self._private),
        )

    async def _ask(self, url: str) -> Reply:
        reply = await self._web.read(Request(url=url, private=self._private), str(self._source))
        if reply.status != httpx.codes.OK:
            raise self._refused(reply.status, reply.headers, reply.url)
        return reply

    def refused_file(self, wanted: Wanted, error: FileRefusedError) -> PreflightError:
        """Return the error for a file that the hub will not give."""
        return self._refused(error.status, error.headers, wanted.name)

    def _refused(self, status: int, headers: Mapping[str, str], what: str) -> PreflightError:
        code = headers.get("x-error-code", "")
        said = headers.get("x-error-message") or code
        text = f"{self._source}: the hub ({self._endpoint}) answered {status} for {what}"
        return PreflightError(f"{text}: {said}" if said else text, hint=self._hint(status, code))

    def _hint(self, status: int, code: str) -> str | None:
        has_token = bool(self._private)
        if status in {401, 403} or code == "GatedRepo":
            if has_token:
                return "The token that was sent does not allow it: ask for access on the repository's page."
            return "There is no such repository, or it needs a token: set HF_TOKEN, or log in with `hf auth login`."
        if status == httpx.codes.NOT_FOUND:
            return "Check the names of repository, revision and path; a private repository needs HF_TOKEN."
        return None


def _remove_others(shelf: Shelf, wanted: set[Path]) -> None:
    """Remove what an earlier try of another revision left."""
    for path in shelf.files.rglob("*"):
        if path not in wanted and not path.is_dir():
            path.unlink()
