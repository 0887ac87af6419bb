"""A Hugging Face hub on 127.0.0.1: lists of files in pages, contents with ranges and ETags, and large files elsewhere.

It speaks what our own client asks and what the client of the package `huggingface_hub` asks. What the real hub keeps
with git-lfs is redirected to a second server, as there.
"""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatchcase

import attrs

from support.loopback import Asked, Given, Loopback


@attrs.define
class Repository:
    """A repository with one commit.

    Attributes:
        token: Without which it is not shown.
    """

    files: dict[str, bytes]
    lfs: tuple[str, ...]
    commit: str
    token: str | None = None

    def is_lfs(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.lfs)


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def pointer(content: bytes) -> bytes:
    """The pointer file that git-lfs puts in a content's place."""
    oid = hashlib.sha256(content).hexdigest()
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        oid.encode(),
        len(content),
    )


class Hub:
    """The two servers, while its context is open.

    Attributes:
        front: The hub; `endpoint` is its address.
        store: Where large files are.
        page: Entries of one page of a list.
    """

    def __init__(self, page: int = 1000) -> None:
        self.page = page
        self.repositories: dict[str, Repository] = {}
        self.front, self.store = Loopback(self._answer), Loopback(self._content)

    def __enter__(self):
        self.front.__enter__()
        self.store.__enter__()
        return self

    def __exit__(self, *_):
        self.front.__exit__()
        self.store.__exit__()

    @property
    def endpoint(self) -> str:
        return self.front.url

    def add(self, name: str, files: dict[str, bytes], *, lfs=("*.parquet",), token=None) -> str:
        """Publish a data set, or a new commit of it; return the commit."""
        digest = hashlib.sha1(repr((name, sorted(files.items()))).encode()).hexdigest()
        self.repositories[name] = Repository(files, tuple(lfs), digest, token)
        return digest

    def requests(self) -> list[str]:
        """Paths of all requests, of both servers."""
        return [asked.path for asked in (*self.front.asked, *self.store.asked)]

    def _answer(self, asked: Asked) -> Given:
        name = next((n for n in self.repositories if f"/{n}/" in f"{asked.path}/"), None)
        if name is None:
            return _error(401, "RepoNotFound", "Repository not found")
        repository = self.repositories[name]
        if repository.token and asked.headers.get("authorization") != f"Bearer {repository.token}":
            return _error(401, "GatedRepo", "Access to this repository is restricted")
        kind, _, rest = asked.path.partition(f"/{name}")[2].lstrip("/").partition("/")
        if not asked.path.startswith("/api/"):
            return self._resolve(repository, *rest.split("/", 1), asked)
        revision, _, below = rest.partition("/")
        if revision not in {"", "main", repository.commit}:
            return _error(404, "RevisionNotFound", "Invalid rev id")
        if kind == "tree":
            return self._tree(repository, below, asked)
        siblings = [{"rfilename": path} for path in repository.files]
        return _json({"id": name, "sha": repository.commit, "siblings": siblings, "private": False})

    def _tree(self, repository: Repository, below: str, asked: Asked) -> Given:
        top = f"{below}/" if below else ""
        entries = [
            _entry(path, content, repository.is_lfs(path))
            for path, content in repository.files.items()
            if path.startswith(top)
        ]
        if not entries:
            return _error(404, "EntryNotFound", f"{below} does not exist")
        start = int(asked.query.get("cursor", 0))
        given = _json(entries[start : start + self.page])
        if start + self.page < len(entries):
            follows = f"{self.endpoint}{asked.path}?recursive=true&cursor={start + self.page}"
            given.headers["link"] = f'<{follows}>; rel="next"'
        return given

    def _resolve(self, repository: Repository, revision: str, path: str, asked: Asked) -> Given:
        if revision not in {"main", repository.commit}:
            return _error(404, "RevisionNotFound", "Invalid rev id")
        if path not in repository.files:
            return _error(404, "EntryNotFound", "Entry not found")
        content = repository.files[path]
        headers = {"x-repo-commit": repository.commit, "accept-ranges": "bytes"}
        if not repository.is_lfs(path):
            return Given(body=content, headers={**headers, "etag": f'"{git_id(content)}"'})
        oid = hashlib.sha256(content).hexdigest()
        headers |= {
            "x-linked-etag": f'"{oid}"',
            "x-linked-size": str(len(content)),
            "etag": f'"{oid}"',
            "location": f"{self.store.url}/{oid}",
        }
        return Given(status=302, headers=headers)

    def _content(self, asked: Asked) -> Given:
        for repository in self.repositories.values():
            for content in repository.files.values():
                if hashlib.sha256(content).hexdigest() == asked.path.strip("/"):
                    headers = {"accept-ranges": "bytes", "etag": f'"{asked.path.strip("/")}"'}
                    return Given(body=content, headers=headers)
        return Given(status=404)


def _entry(path: str, content: bytes, is_lfs: bool) -> dict:
    entry = {"type": "file", "path": path, "size": len(content), "oid": git_id(content)}
    if is_lfs:
        oid = hashlib.sha256(content).hexdigest()
        entry["oid"] = git_id(pointer(content))
        entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": len(pointer(content))}
    return entry


def _json(value: object, status: int = 200) -> Given:
    headers = {"content-type": "application/json"}
    return Given(status=status, body=json.dumps(value).encode(), headers=headers)


def _error(status: int, code: str, message: str) -> Given:
    given = _json({"error": message}, status)
    given.headers.update({"x-error-code": code, "x-error-message": message})
    return given


def content_of(directory):
    """All files below a directory, by path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
