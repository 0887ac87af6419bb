"""Programs that are published as npm packages: fetched without npm, checked, unpacked, and kept for all runs.

Source: npm's documentation of its registry ("package metadata"), and W3C "Subresource Integrity" for the form of checksums.
"""

from __future__ import annotations

import base64
import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, final
from urllib.parse import quote

import httpx
import trio
from trio.from_thread import check_cancelled

from agentcompass.data import frozen
from agentcompass.datasets.names import inside, readable
from agentcompass.datasets.npmrc import DEFAULT_REGISTRY, NpmConfig, npm_config_here
from agentcompass.datasets.shelf import Shelf, explained, megabytes
from agentcompass.datasets.web import Request, Web, pour
from agentcompass.errors import PreflightError

FOLDER: Final = "programs"
MAX_PACKAGE_BYTES: Final = 1 << 30
"""Of what is fetched."""
MAX_UNPACKED_BYTES: Final = 4 << 30
_LUMP_BYTES: Final = 1 << 20
_ALGORITHM: Final = "sha512"


@frozen(kw_only=True)
class NpmPackage:
    """A published package, or a part of it."""

    name: str
    """`@scope/name`, or a name alone."""
    version: str
    integrity: str | None = None
    """`sha512-<base64>` of the package as it is fetched; None: what the registry says."""
    directory: str = "package"
    """The part that is kept, which begins all of its paths; `package` is all of it."""
    omit: tuple[str, ...] = ()
    """Directories below it that are left out."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


async def obtain_package(
    package: NpmPackage,
    data_dir: Path,
    *,
    tell: Callable[[str], None],
    may_download: bool = True,
) -> Path:
    """Return the directory with a package's files, after fetching it if it is not there.

    Whoever else wants the same waits meanwhile. It is complete or not there at all, whatever happens.

    Args:
        package: What is wanted.
        data_dir: The root of all downloads; made if it is not there.
        tell: Takes a line for people now and then.
        may_download: False to use what is there, or fail; nothing is written then.

    Raises:
        PreflightError: It cannot be had, is not what was published, or there is no room.
    """
    shelf = Shelf(data_dir, _folder_name(package), FOLDER)
    if (found := await trio.to_thread.run_sync(shelf.found)) is not None:
        return found.directory
    if not may_download:
        raise PreflightError(
            f"the program {package} is not in {data_dir}", hint="A run fetches it from npm."
        )
    async with shelf.locked(lambda: tell(f"waiting for another process that gets {package}")):
        if (found := await trio.to_thread.run_sync(shelf.found)) is None:
            tell(f"getting {package}")
            await trio.to_thread.run_sync(shelf.begin)
            await _fill(package, shelf, tell)
            found = await trio.to_thread.run_sync(shelf.finish, str(package), package.version)
            tell(f"got {package}")
    return found.directory


def _folder_name(package: NpmPackage) -> str:
    identity = repr((package.name, package.version, package.directory, package.omit))
    return f"{readable(str(package))}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


async def _fill(package: NpmPackage, shelf: Shelf, tell: Callable[[str], None]) -> None:
    config = await trio.to_thread.run_sync(npm_config_here)
    web = Web(tell)
    tarball = shelf.part / "package.tgz"
    try:
        url, published = await _published(package, config, web)
        integrity = package.integrity or published
        if not integrity.startswith(f"{_ALGORITHM}-"):
            raise PreflightError(
                f"{package}: the registry gives no {_ALGORITHM} checksum",
                hint="Use a newer version.",
            )
        with explained(tarball):
            size, found = await web.persist(
                lambda: _fetch(web, package, url, config, tarball), str(package)
            )
    finally:
        await web.aclose()
    if found != integrity:
        raise PreflightError(
            f"{package} has not the checksum that it was published with ({integrity})",
            hint=f"{httpx.URL(url).host}, or a proxy on the way, gives something else.",
        )
    tell(f"unpacking {package} ({megabytes(size)} MB)")
    with explained(shelf.files):
        await trio.to_thread.run_sync(_unpack, package, tarball, shelf.files)
        await trio.to_thread.run_sync(tarball.unlink)


async def _published(package: NpmPackage, config: NpmConfig, web: Web) -> tuple[str, str]:
    """Where a package is, and its checksum."""
    registry = config.registry_of(package.name)
    url = f"{registry}{quote(package.name, safe='@')}/{quote(package.version, safe='')}"
    asked = Request(
        url=url, headers={"Accept": "application/json"}, private=config.authorization_for(url)
    )
    reply = await web.read(asked, str(package))
    if reply.status != httpx.codes.OK:
        raise PreflightError(
            f"{package} cannot be had: {httpx.URL(registry).host} answered {reply.status}",
            hint="Check the version, and the registry that npm is configured for (`npm config get registry`).",
        )
    told = await trio.to_thread.run_sync(reply.json, str(package))
    dist = told.get("dist") if isinstance(told, Mapping) else None
    place = dist.get("tarball") if isinstance(dist, Mapping) else None
    if not isinstance(dist, Mapping) or not isinstance(place, str):
        raise PreflightError(f"{package}: {httpx.URL(registry).host} does not say where it is")
    if registry != DEFAULT_REGISTRY and place.startswith(DEFAULT_REGISTRY):
        place = registry + place.removeprefix(DEFAULT_REGISTRY)  # as npm does for mirrors
    return place, str(dist.get("integrity") or "").split(" ")[0]


async def _fetch(
    web: Web, package: NpmPackage, url: str, config: NpmConfig, target: Path
) -> tuple[int, str]:
    """Fetch a package to a file; return its size and checksum."""
    asked = Request(url=url, private=config.authorization_for(url))
    async with web.ask(asked) as response:
        if response.status_code != httpx.codes.OK:
            host = httpx.URL(url).host
            raise PreflightError(f"{package} cannot be had: {host} answered {response.status_code}")
        file = await trio.to_thread.run_sync(lambda: target.open("wb"))
        written = _Written(package, file)
        try:
            await pour(response, written.take)
            await written.flush()
        finally:
            file.close()
    return written.size, written.integrity


@final
class _Written:
    """What has come, on its way to the disk."""

    def __init__(self, package: NpmPackage, file: BinaryIO) -> None:
        self._package, self._file = package, file
        self._lump = bytearray()
        self._hash = hashlib.new(_ALGORITHM)
        self.size = 0

    @property
    def integrity(self) -> str:
        """The checksum, in the form in which registries give it."""
        return f"{_ALGORITHM}-{base64.b64encode(self._hash.digest()).decode('ascii')}"

    async def take(self, chunk: bytes) -> None:
        """Take what comes next."""
        self.size += len(chunk)
        if self.size > MAX_PACKAGE_BYTES:
            raise PreflightError(f"{self._package} has more than {megabytes(MAX_PACKAGE_BYTES)} MB")
        self._lump += chunk
        if len(self._lump) >= _LUMP_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write what is in memory."""
        lump, self._lump = bytes(self._lump), bytearray()
        await trio.to_thread.run_sync(self._write, lump)

    def _write(self, lump: bytes) -> None:
        self._file.write(lump)
        self._hash.update(lump)


def _unpack(package: NpmPackage, tarball: Path, target: Path) -> None:
    """Write the files of the part that is wanted; nothing but plain files, and none of them outside."""
    rest = MAX_UNPACKED_BYTES
    try:
        with tarfile.open(tarball, "r:gz") as tar:
            for member, name in _wanted(package, tar):
                rest -= member.size
                if rest < 0:
                    raise PreflightError(f"{package} is too large to be unpacked")
                _write_file(tar, member, inside(target, name, str(package)))
    except (tarfile.TarError, EOFError) as error:
        raise PreflightError(f"{package} is no package: {error}") from error
    if rest == MAX_UNPACKED_BYTES:
        raise PreflightError(
            f"{package} has no directory {package.directory}", hint="Choose another version."
        )


def _wanted(package: NpmPackage, tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """The plain files that are kept, each with its path below the part's directory."""
    for member in tar:
        check_cancelled()
        path = PurePosixPath(member.name)
        if not member.isreg() or not path.is_relative_to(package.directory):
            continue
        name = path.relative_to(package.directory)
        if not any(name.is_relative_to(omitted) for omitted in package.omit):
            yield member, str(name)


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content: Any = tar.extractfile(member)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while lump := content.read(_LUMP_BYTES):
            check_cancelled()
            file.write(lump)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
