"""What git-lfs keeps apart: pointer files of a checkout are replaced by what they point to, over HTTPS, without git-lfs.

Source: the specification of pointer files and of the batch API in the documentation of git-lfs (docs/spec.md,
docs/api/batch.md, docs/api/server-discovery.md).
"""

from __future__ import annotations

import base64
import configparser
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import trio

from agentcompass.data import frozen
from agentcompass.datasets.batch import Batch, Job
from agentcompass.datasets.download import FileRefusedError, Wanted
from agentcompass.datasets.processes import Git, account_of
from agentcompass.datasets.shelf import Shelf
from agentcompass.datasets.sources import without_password
from agentcompass.datasets.web import Reply, Request, Web
from agentcompass.errors import PreflightError

MAX_POINTER_BYTES: Final = 1024
PER_REQUEST: Final = 100
"""Objects asked for at once."""
_MEDIA: Final = "application/vnd.git-lfs+json"
_POINTER: Final = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.+\n)*?oid sha256:([0-9a-f]{64})\n(?:.+\n)*?size (\d+)\n"
)


@frozen(kw_only=True)
class Pointer:
    """A file of a checkout that stands for another."""

    path: Path
    name: str
    """Its path in the repository."""
    oid: str
    """SHA-256 of what it stands for."""
    size: int


async def resolve(
    git: Git, url: str, commit: str, shelf: Shelf, tell: Callable[[str], None]
) -> None:
    """Replace the pointer files of a checkout by what they point to.

    Args:
        git: In the checkout.
        url: Of the repository, with the user and password that it may name.
        commit: What is checked out.
        shelf: Checked for room; unfinished files are kept in it.
        tell: Takes lines about progress.

    Raises:
        PreflightError: An object cannot be had.
    """
    pointers = await trio.to_thread.run_sync(lambda: list(_candidates(git.directory)))
    if pointers:
        pointers = await _kept_apart(git, pointers)
    if not pointers:
        return
    web = Web(tell)
    try:
        store = _Store(web, git, url, await trio.to_thread.run_sync(_endpoint, git.directory, url))
        jobs: list[Job] = []
        for first in range(0, len(pointers), PER_REQUEST):
            jobs += await store.jobs(pointers[first : first + PER_REQUEST])
        await Batch(web, shelf, f"{git.url} at {commit[:12]}").get(jobs, store.refused)
    finally:
        await web.aclose()


def _candidates(directory: Path) -> Iterator[Pointer]:
    """Yield the files that look like pointers."""
    for parent, folders, files in os.walk(directory):
        if ".git" in folders:
            folders.remove(".git")
        for file in files:
            path = Path(parent, file)
            if path.is_symlink() or path.stat().st_size > MAX_POINTER_BYTES:
                continue
            if found := _POINTER.fullmatch(path.read_bytes()):
                name = path.relative_to(directory).as_posix()
                yield Pointer(path=path, name=name, oid=found[1].decode(), size=int(found[2]))


async def _kept_apart(git: Git, pointers: Sequence[Pointer]) -> list[Pointer]:
    """Return those that the repository's attributes declare to be pointers."""
    names = b"\0".join(os.fsencode(pointer.name) for pointer in pointers)
    output = await git.run("check-attr", "--stdin", "-z", "filter", stdin=names + b"\0")
    fields = output.split(b"\0")
    declared = {
        os.fsdecode(name)
        for name, value in zip(fields[::3], fields[2::3], strict=False)
        if value == b"lfs"
    }
    return [pointer for pointer in pointers if pointer.name in declared]


def _endpoint(directory: Path, url: str) -> str:
    """Return the address of the LFS server: the one that the repository names, else the usual one."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        text = (directory / ".lfsconfig").read_text(encoding="utf-8")
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
        if named := parser.get("lfs", "url", fallback="").strip('" '):
            return named.rstrip("/")
    except (OSError, UnicodeDecodeError, configparser.Error):
        pass
    bare = without_password(url).rstrip("/")
    if (
        match := re.fullmatch(r"(?:ssh://)?(?:[^@/]+@)?([^:/]+)(?::\d+(?=/))?[:/](.+)", bare)
    ) and not (bare.startswith(("http://", "https://"))):
        bare = f"https://{match[1]}/{match[2].lstrip('/')}"
    return f"{bare if bare.endswith('.git') else f'{bare}.git'}/info/lfs"


class _Store:
    """The server that has the objects of one repository."""

    def __init__(self, web: Web, git: Git, url: str, endpoint: str) -> None:
        self._web, self._git, self._endpoint = web, git, endpoint
        account = account_of(url) if _host(url) == _host(endpoint) else None
        self._private: Mapping[str, str] = _basic(*account) if account else {}
        self._has_asked = bool(account)

    async def jobs(self, pointers: Sequence[Pointer]) -> list[Job]:
        """Ask where the objects are, and return how to get each."""
        reply = await self._ask(pointers)
        if reply.status == httpx.codes.UNAUTHORIZED and not self._has_asked:
            self._private = await self._login()
            reply = await self._ask(pointers)
        found = reply.json(self._git.url) if reply.status == httpx.codes.OK else None
        objects = found.get("objects") if isinstance(found, dict) else None
        if not isinstance(objects, list):
            raise PreflightError(
                f"{self._git.url}: the LFS server {self._endpoint} answered {reply.status}: {reply.words}",
                hint="Private repositories need a login that git knows (a credential helper).",
            )
        actions = {
            str(item.get("oid")): self._action(item) for item in objects if isinstance(item, dict)
        }
        return [self._job(pointer, actions) for pointer in pointers]

    async def _ask(self, pointers: Sequence[Pointer]) -> Reply:
        unique = {pointer.oid: pointer.size for pointer in pointers}
        body = {
            "operation": "download",
            "transfers": ["basic"],
            "hash_algo": "sha256",
            "objects": [{"oid": oid, "size": size} for oid, size in unique.items()],
        }
        request = Request(
            url=f"{self._endpoint}/objects/batch",
            method="POST",
            headers={"Accept": _MEDIA, "Content-Type": _MEDIA},
            private=self._private,
            body=json.dumps(body).encode(),
        )
        return await self._web.read(request, self._git.url)

    async def _login(self) -> Mapping[str, str]:
        """Ask git's credential helpers; they may know nothing."""
        self._has_asked = True
        place = urlsplit(self._endpoint)
        asked = f"protocol={place.scheme}\nhost={place.netloc}\n\n".encode()
        code, output, _ = await self._git.attempt("credential", "fill", stdin=asked)
        known = dict(line.split("=", 1) for line in output.decode().splitlines() if "=" in line)
        if code != 0 or "password" not in known:
            return {}
        return _basic(known.get("username", ""), known["password"])

    def _action(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(error := item.get("error"), dict):
            raise PreflightError(
                f"{self._git.url}: the LFS server has no object {item.get('oid')}: "
                f"{error.get('message')} ({error.get('code')})"
            )
        action = (item.get("actions") or {}).get("download")
        return action if isinstance(action, dict) else {}

    def _job(self, pointer: Pointer, actions: Mapping[str, Mapping[str, Any]]) -> Job:
        action = actions.get(pointer.oid, {})
        href, header = action.get("href"), action.get("header") or {}
        if not isinstance(href, str) or not isinstance(header, dict):
            raise PreflightError(
                f"{self._git.url}: the LFS server does not say where {pointer.name} is"
            )
        private = {str(name): str(value) for name, value in header.items()}
        if not private and _host(href) == _host(self._endpoint):
            private = {**self._private}
        return Job(
            wanted=Wanted(
                name=pointer.name,
                target=pointer.path,
                size=pointer.size,
                digest=f"sha256:{pointer.oid}",
            ),
            request=Request(url=href, private=private),
        )

    def refused(self, wanted: Wanted, error: FileRefusedError) -> PreflightError:
        """Return the error for an object that the server will not give."""
        return PreflightError(
            f"{self._git.url}: the LFS server answered {error.status} for {wanted.name}"
        )


def _host(url: str) -> str:
    return urlsplit(without_password(url)).netloc


def _basic(user: str, password: str) -> dict[str, str]:
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return {"Authorization": f"Basic {encoded}"}
