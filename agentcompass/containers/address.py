"""Where the engine is: DOCKER_HOST, Docker contexts, and the sockets that Docker and Podman use by themselves."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import urlsplit

import attrs

from agentcompass.containers.errors import DockerError
from agentcompass.data import frozen

DEFAULT_SOCKET: Final = "/var/run/docker.sock"
_PORT, _TLS_PORT = 2375, 2376
_SSH_HINT: Final = (
    "Forward its socket, `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`, "
    "and set DOCKER_HOST=unix:///tmp/docker.sock."
)


@final
@frozen(kw_only=True)
class EngineAddress:
    """How to reach one engine."""

    host: str
    """As a person wrote it: `unix:///var/run/docker.sock`, `tcp://10.0.0.7:2376`."""
    origin: str = "http://docker"
    """Begins every URL."""
    socket_path: str | None = None
    """The Unix socket that is used; None: TCP."""
    tls: ssl.SSLContext | None = attrs.field(default=None, eq=False, repr=False)
    source: str = "the default"
    """What named it, for messages: "DOCKER_HOST", "the context 'x'"."""

    def __str__(self) -> str:
        return f"{self.host} (from {self.source})"


def find_engine(host: str | None, *, environ: Mapping[str, str], home: Path) -> EngineAddress:
    """Find the engine as the docker command would. Reads small files.

    In this order: `host`, DOCKER_HOST, DOCKER_CONTEXT, the current context of the configuration (DOCKER_CONFIG or
    `~/.docker`), CONTAINER_HOST (Podman's), and the first socket that is there: /var/run/docker.sock, those of
    rootless Docker and Docker Desktop, Podman's. If none is, Docker's usual one, which then cannot be reached.

    Args:
        host: A URL that wins over all others.
        environ: The environment.
        home: The user's home directory.

    Raises:
        DockerError: What is named there cannot be used (code `bad-engine-address`).
    """
    config = Path(environ.get("DOCKER_CONFIG") or home / ".docker")
    if host:
        return _parse(host, "the configuration", _tls_files(environ, config))
    if host := environ.get("DOCKER_HOST"):
        return _parse(host, "DOCKER_HOST", _tls_files(environ, config))
    context = environ.get("DOCKER_CONTEXT") or _current_context(config)
    if context and context != "default":
        return _of_context(context, config)
    if host := environ.get("CONTAINER_HOST"):
        return _parse(host, "CONTAINER_HOST", None)
    path = next(filter(_is_socket, _usual_sockets(environ, home)), DEFAULT_SOCKET)
    return _parse(f"unix://{path}", "the default", None)


@frozen
class _TlsFiles:
    directory: Path
    verifies: bool = True

    def context(self) -> ssl.SSLContext:
        authority, certificate = self.directory / "ca.pem", self.directory / "cert.pem"
        context = ssl.create_default_context(cafile=authority if authority.exists() else None)
        if not self.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate.exists():
            context.load_cert_chain(certificate, self.directory / "key.pem")
        return context


def _tls_files(environ: Mapping[str, str], config: Path) -> _TlsFiles | None:
    verifies = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verifies and not environ.get("DOCKER_TLS"):
        return None
    return _TlsFiles(Path(environ.get("DOCKER_CERT_PATH") or config), verifies)


def _parse(host: str, source: str, tls: _TlsFiles | None) -> EngineAddress:
    url = urlsplit(host)
    if url.scheme == "unix" and url.path:
        return EngineAddress(host=host, socket_path=url.path, source=source)
    if url.scheme == "ssh":
        raise _unusable(host, source, "engines behind ssh:// are not reached directly", _SSH_HINT)
    try:
        name, port = url.hostname, url.port
    except ValueError as error:
        raise _unusable(host, source, str(error)) from error
    if url.scheme not in ("tcp", "http", "https") or not name:
        raise _unusable(host, source, "it must begin with unix:// or tcp://")
    is_tls = tls is not None or url.scheme == "https"
    name = f"[{name}]" if ":" in name else name
    scheme, port = ("https", port or _TLS_PORT) if is_tls else ("http", port or _PORT)
    try:
        context = tls.context() if tls else None
    except OSError as error:  # ssl.SSLError is one too
        raise _unusable(
            host, source, f"no certificates in {tls and tls.directory}: {error}"
        ) from error
    return EngineAddress(
        host=host,
        origin=f"{scheme}://{name}:{port}{url.path.rstrip('/')}",
        tls=context,
        source=source,
    )


def _unusable(host: str, source: str, reason: str, hint: str | None = None) -> DockerError:
    text = f"the engine address {host!r} (from {source}) cannot be used: {reason}"
    return DockerError(text, code="bad-engine-address", hint=hint)


def _current_context(config: Path) -> str | None:
    path = config / "config.json"
    if not path.exists():
        return None
    name = _read_json(path).get("currentContext")
    return name if isinstance(name, str) else None


def _of_context(name: str, config: Path) -> EngineAddress:
    # The docker command keeps a context in directories named after the hash of its name.
    digest = hashlib.sha256(name.encode()).hexdigest()
    source = f"the context {name!r}"
    path = config / "contexts" / "meta" / digest / "meta.json"
    if not path.exists():
        raise _unusable(name, source, f"there is no such context in {config}")
    endpoint = _read_json(path).get("Endpoints", {}).get("docker", {})
    tls_dir = config / "contexts" / "tls" / digest / "docker"
    tls = _TlsFiles(tls_dir, not endpoint.get("SkipTLSVerify")) if tls_dir.is_dir() else None
    return _parse(str(endpoint.get("Host", "")), source, tls)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(str(path), "Docker's configuration", str(error)) from error
    return value if isinstance(value, dict) else {}


def _usual_sockets(environ: Mapping[str, str], home: Path) -> Iterable[str]:
    yield DEFAULT_SOCKET
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield f"{runtime}/docker.sock"
    yield str(home / ".docker" / "run" / "docker.sock")
    yield f"{runtime}/podman/podman.sock"
    yield "/run/podman/podman.sock"


def _is_socket(path: str) -> bool:
    try:
        return Path(path).is_socket()
    except OSError:
        return False  # in another user's directory
