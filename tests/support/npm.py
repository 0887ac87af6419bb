"""An npm registry: packages as it publishes them, on 127.0.0.1."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile

from support.loopback import Given, Loopback


def packed(files: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    """A package; what has `bin` in its path can be run."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if "bin" in name else 0o644
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    return packed.getvalue()


def integrity_of(content: bytes, algorithm: str = "sha512") -> str:
    digest = hashlib.new(algorithm, content).digest()
    return f"{algorithm}-{base64.b64encode(digest).decode()}"


class Registry(Loopback):
    """The registry.

    Attributes:
        packages: By name and version, what is published.
        token: Without it nobody gets anything; None: everybody does.
        tarball_base: What the places of packages begin with.
    """

    def __init__(self):
        super().__init__(self._react)
        self.packages: dict[tuple[str, str], bytes] = {}
        self.integrity: str | None = None
        self.token: str | None = None
        self.tarball_base = f"{self.url}/"

    def publish(self, name: str, version: str, content: bytes) -> str:
        self.packages[name, version] = content
        return integrity_of(content)

    def _react(self, asked):
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return Given(status=401, body=b"who?")
        for (name, version), content in self.packages.items():
            place = f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
            if asked.path == f"/{place}":
                return Given(body=content)
            if asked.path == f"/{name}/{version}":
                integrity = integrity_of(content) if self.integrity is None else self.integrity
                dist = {"tarball": f"{self.tarball_base}{place}", "integrity": integrity}
                return Given(body=json.dumps({"name": name, "dist": dist}).encode())
        return Given(status=404, body=b"{}")
