"""Git repositories served over HTTP on 127.0.0.1, by the real `git http-backend` or as plain files, with LFS objects."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import subprocess
from pathlib import Path

from support.hub import pointer
from support.loopback import Asked, Given, Loopback

BACKEND = Path(
    subprocess.run(
        ["git", "--exec-path"], capture_output=True, text=True, check=True
    ).stdout.strip(),
    "git-http-backend",
)
QUIET = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{
        f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    },
}


def git(directory: Path, *arguments: str) -> str:
    """Run git in a repository of a test."""
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=QUIET, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


class GitServer:
    """Serves the repositories in a directory while its context is open.

    Attributes:
        account: User and password that are asked for; None to let everybody in.
        is_dumb: Whether it only serves files, as any web server can.
        refuses_commits: Whether it gives branches and tags only, and no part of a history.
        objects: What it has for git-lfs, by SHA-256.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.account: tuple[str, str] | None = None
        self.is_dumb = self.refuses_commits = False
        self.objects: dict[str, bytes] = {}
        self.server = Loopback(self._answer)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def url(self, name: str) -> str:
        return f"{self.server.url}/{name}.git"

    def add(self, name: str, files: dict[str, bytes], *, links=(), lfs=()) -> str:
        """Commit files to a repository, which is made if it is not there; return the commit."""
        work, bare = self.root / f"{name}.work", self.root / f"{name}.git"
        if not work.exists():
            work.mkdir(parents=True)
            git(work, "init", "--quiet", "--initial-branch=main", ".")
            git(work, "init", "--quiet", "--bare", str(bare))
            git(bare, "config", "uploadpack.allowFilter", "true")
            git(work, "remote", "add", "origin", str(bare))
        for path, content in files.items():
            file = work / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(pointer(content) if path in lfs else content)
            if path in lfs:
                self.objects[hashlib.sha256(content).hexdigest()] = content
        for path, to in links:
            (work / path).symlink_to(to)
        git(work, "add", "--all")
        git(work, "commit", "--quiet", "--allow-empty", "--message", "x")
        git(work, "push", "--quiet", "--force", "--all", "origin")
        git(bare, "symbolic-ref", "HEAD", "refs/heads/main")
        git(bare, "update-server-info")
        return git(work, "rev-parse", "HEAD")

    def _answer(self, asked: Asked) -> Given:
        if self.account and not self._is_allowed(asked):
            return Given(status=401, headers={"www-authenticate": 'Basic realm="git"'})
        if asked.path.endswith("/info/lfs/objects/batch"):
            return self._batch(json.loads(asked.body))
        if asked.path.startswith("/objects/"):
            content = self.objects.get(asked.path.removeprefix("/objects/"))
            if content is None:
                return Given(status=404)
            return Given(body=content, headers={"accept-ranges": "bytes"})
        return self._file(asked) if self.is_dumb else self._backend(asked)

    def _is_allowed(self, asked: Asked) -> bool:
        expected = base64.b64encode(":".join(self.account).encode()).decode()
        return asked.headers.get("authorization") == f"Basic {expected}"

    def _file(self, asked: Asked) -> Given:
        file = self.root / asked.path.lstrip("/")
        return Given(body=file.read_bytes()) if file.is_file() else Given(status=404)

    def _backend(self, asked: Asked) -> Given:
        """Run the CGI program."""
        protocol = "" if self.refuses_commits else asked.headers.get("git-protocol", "")
        environ = {
            **QUIET,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": asked.method,
            "PATH_INFO": asked.path,
            "QUERY_STRING": asked.raw_query,
            "CONTENT_TYPE": asked.headers.get("content-type", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": protocol,
        }
        body = asked.body
        if asked.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        done = subprocess.run([BACKEND], input=body, env=environ, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return Given(status=status, body=content, headers=headers)

    def _batch(self, wanted: dict) -> Given:
        objects = []
        for item in wanted["objects"]:
            if item["oid"] in self.objects:
                href = f"{self.server.url}/objects/{item['oid']}"
                objects.append({**item, "actions": {"download": {"href": href}}})
            else:
                error = {"code": 404, "message": "Object does not exist"}
                objects.append({**item, "error": error})
        headers = {"content-type": "application/vnd.git-lfs+json"}
        body = json.dumps({"transfer": "basic", "objects": objects}).encode()
        return Given(body=body, headers=headers)
