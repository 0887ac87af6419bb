"""What an image is built from, and the tag that its content gives it. Blocking functions, for worker threads."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

import attrs

from agentcompass.containers import sdk, tars
from agentcompass.containers.errors import DockerError
from agentcompass.data import frozen

REPOSITORY: Final = "agentcompass/build"


@final
@frozen(kw_only=True)
class Build:
    """How to build an image, by the engine's own builder (not BuildKit)."""

    context: Path
    """The directory; its `.dockerignore` counts."""
    dockerfile: str = "Dockerfile"
    """Relative to `context`."""
    args: Mapping[str, str] = attrs.field(factory=dict)
    target: str | None = None
    """The stage of it; None: the last."""
    platform: str | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    """Of the image; they make no other image of it."""

    def query(self) -> Mapping[str, Any]:
        """Return it as the engine is told."""
        return {
            "dockerfile": self.dockerfile,
            "buildargs": dict(self.args),
            "target": self.target,
            "platform": self.platform,
            "labels": dict(self.labels),
        }


def tag_of(build: Build, check: Callable[[], None]) -> str:
    """Return the tag for what a build is made of: files with their modes, Dockerfile, arguments, target, platform.

    What a Dockerfile's `FROM` and its commands fetch is not part of it.

    Raises:
        DockerError: There is no such Dockerfile (code `build-failed`).
        OSError: Something cannot be read.
    """
    if ".." in Path(build.dockerfile).parts or Path(build.dockerfile).is_absolute():
        raise DockerError(f"{build.dockerfile} is not in {build.context}", code="build-failed")
    if not (build.context / build.dockerfile).is_file():
        raise DockerError(f"there is no {build.context / build.dockerfile}", code="build-failed")
    digest = hashlib.sha256()
    asked = {name: value for name, value in build.query().items() if name != "labels"}
    digest.update(json.dumps(asked, sort_keys=True).encode())
    for entry in _entries(build):
        check()
        digest.update(json.dumps([entry.name, entry.link]).encode())
        if entry.link is None and entry.source is not None:
            digest.update(f"{entry.source.stat().st_mode:o}".encode())
            if entry.source.is_file():
                digest.update(_content(entry.source))
    return f"{REPOSITORY}:{digest.hexdigest()[:40]}"


def pack(
    build: Build, tag: str, give: Callable[[bytes], object], check: Callable[[], None]
) -> None:
    """Give the build's files as a tar stream, which is not brought to its end unless they are those of the tag.

    Raises:
        DockerError: They have changed meanwhile (code `build-failed`): the image would be taken for another.
        OSError: Something cannot be read.
    """

    def entries() -> Iterator[tars.Entry]:
        for entry in _entries(build):
            check()
            yield entry
        if tag_of(build, check) != tag:
            raise DockerError(
                f"files in {build.context} changed while the image was to be built",
                code="build-failed",
                hint="Leave the directory alone until the image is there.",
            )

    tars.pack(entries(), give)


def _entries(build: Build) -> Iterator[tars.Entry]:
    for name in sdk.context_files(build.context, build.dockerfile):
        path = build.context / name
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield tars.Entry(name=name, link=str(path.readlink()))
        elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            yield tars.Entry(name=name, source=path)


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
