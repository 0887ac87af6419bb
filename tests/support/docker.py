"""A real Docker engine for tests, images for it that need no registry, and containers.

The engine is the one that the environment names, as for the docker command; else one is started for this run of the
tests, and stopped at its end. That needs root and Debian's packages docker.io and iptables; the images are made of
packages that are installed here (`PACKAGES`). All of it is named `agentcompass-test`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import io
import os
import secrets
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import docker as sdk
import pytest
import trio

from agentcompass.containers import life
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.client import Docker, connect
from agentcompass.containers.errors import DockerError
from agentcompass.containers.run import run

HERE = Path(__file__).parent
ENGINE_SCRIPT, IMAGE_SCRIPT = HERE / "docker_engine.sh", HERE / "docker_image.sh"
PREFIX = "agentcompass-test"
PACKAGES = (
    *("base-files", "libc-bin", "bash", "dash", "coreutils", "grep", "sed", "mawk", "findutils"),
    *("tar", "gzip", "diffutils", "tmux", "python3-minimal", "procps", "hostname"),
    *("ncurses-base", "ncurses-bin"),
)
CHANGES = ["ENV LANG=C.UTF-8", 'CMD ["/bin/bash"]']
LABEL = f"{PREFIX}.run"
RUN = secrets.token_hex(6)
"""Of this process: the value of the label of all that it makes."""


@functools.cache
def engine_host() -> str:
    """The DOCKER_HOST of an engine; skips the test where there is none and none can be started."""

    async def found():
        async with connect() as docker:
            return docker.address.host

    with contextlib.suppress(DockerError):
        return trio.run(found)
    return _shared_engine(Path(os.environ["AGENTCOMPASS_TEST_ENGINE"]))


def _shared_engine(directory: Path) -> str:
    """The engine that the first worker process that needs one starts for all; `conftest.py` stops it."""
    with Path(directory, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        host = Path(directory, "host")
        if not host.exists():
            host.write_text(_start_engine(directory, ""))
        return host.read_text()


def start_engine(directory: Path, netns: str) -> str:
    """Start an engine that ends with this process."""
    host = _start_engine(directory, netns)
    atexit.register(stop_engine, directory, netns)
    return host


def _start_engine(directory: Path, netns: str) -> str:
    if os.geteuid() != 0 or not shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin"):
        pytest.skip("no Docker engine answers, and none can be started (as root, with docker.io)")
    started = subprocess.run(
        [ENGINE_SCRIPT, "start", directory, netns],
        stdout=subprocess.PIPE,
        text=True,
        timeout=100,
        check=False,
    )
    if started.returncode != 0:
        pytest.skip("a Docker engine cannot be started here")
    return started.stdout.strip()


def stop_engine(directory: Path, netns: str = "") -> None:
    """Stop an engine if it runs, and remove its directory."""
    if Path(directory, "docker.pid").exists():
        subprocess.run([ENGINE_SCRIPT, "stop", directory, netns], timeout=100, check=False)
    shutil.rmtree(directory, ignore_errors=True)


class PrivateEngine:
    """An engine beside the one of the other tests, which may be frozen and killed. Its containers have no network.

    Attributes:
        host: Its DOCKER_HOST.
        netns: The network namespace in which it also listens at tcp://127.0.0.1:2376.
        certificates: Directory with those of a client.
    """

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="acd-", dir="/tmp"))
        self.netns = self.directory.name
        self.certificates = self.directory / "tls"
        _make_certificates(self.certificates)
        self.host = start_engine(self.directory, self.netns)
        self.image = import_image(self.host, *base_files())

    @property
    def pid(self) -> int:
        return int((self.directory / "docker.pid").read_text())

    @contextlib.contextmanager
    def frozen(self):
        """It does nothing at all."""
        os.kill(self.pid, signal.SIGSTOP)
        while not all(state == "T" for state in self._states()):
            time.sleep(0.001)  # until the signal has come to each of its threads
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _states(self):
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield Path(thread, "stat").read_text().rpartition(")")[2].split()[0]

    def kill(self):
        """End it as a crash does."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            time.sleep(0.01)

    def mend(self):
        """Make it work again, without containers."""
        if not Path(f"/proc/{self.pid}").exists():
            self.start_again()
        os.kill(self.pid, signal.SIGCONT)

        async def remove_all():
            async with connect(self.host) as engine:
                for found in await life.listed(engine):
                    await life.remove(engine, found.id)

        trio.run(remove_all)

    def start_again(self):
        subprocess.run(
            [ENGINE_SCRIPT, "start", self.directory, self.netns],
            stdout=subprocess.DEVNULL,
            timeout=100,
            check=True,
        )


def _make_certificates(directory):
    directory.mkdir()

    def openssl(*words):
        subprocess.run(
            ["openssl", *words], cwd=directory, capture_output=True, check=True, timeout=60
        )

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca-key.pem", "-out", "ca.pem")
    for name, prefix in (("127.0.0.1", "server-"), ("client", "")):
        extension = Path(directory, f"{name}.ext")
        extension.write_text(
            "subjectAltName=IP:127.0.0.1" if prefix else "extendedKeyUsage=clientAuth"
        )
        files = ["-keyout", f"{prefix}key.pem", "-out", f"{name}.csr"]
        openssl("req", "-new", *key, "-subj", f"/CN={name}", *files)
        by = [
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca-key.pem",
            "-CAcreateserial",
            "-extfile",
            extension.name,
        ]
        openssl("x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{prefix}cert.pem")


@functools.cache
def private_engine() -> PrivateEngine:
    """The one that tests of faults share: whoever breaks it mends it."""
    return PrivateEngine()


@functools.cache
def base_files(kind: str = "base", *more: str) -> tuple[str, bytes]:
    """Name and files of the image with a small Debian, Python and tmux, and of more packages."""
    packages = [*PACKAGES, *more]
    versions = subprocess.run(
        ["dpkg-query", "-W", *packages], capture_output=True, check=False, timeout=60
    )
    digest = hashlib.sha256(versions.stdout + IMAGE_SCRIPT.read_bytes()).hexdigest()
    cache = Path(tempfile.gettempdir(), f"{PREFIX}-{digest[:16]}.tar")
    if not cache.exists():
        made = subprocess.run(
            [IMAGE_SCRIPT, *packages], stdout=subprocess.PIPE, timeout=300, check=True
        )
        part = cache.with_suffix(f".{RUN}")
        part.write_bytes(made.stdout)
        part.rename(cache)
    return f"{kind}:{digest[:16]}", cache.read_bytes()


@functools.cache
def busybox_files() -> tuple[str, bytes]:
    """Name and files of an image with nothing but BusyBox."""
    program = Path("/bin/busybox").read_bytes()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in ("bin", "proc", "tmp", "etc"):
            _add(tar, name, type=tarfile.DIRTYPE, mode=0o755)
        _add(tar, "bin/busybox", program, mode=0o755)
        for name in ("sh", "sleep", "cat", "grep", "setsid", "env", "printf"):
            _add(tar, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    return f"busybox:{hashlib.sha256(program).hexdigest()[:16]}", file.getvalue()


def _add(tar, name, content=b"", **attributes):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in attributes.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(content))


def import_image(host: str, name: str, files: bytes) -> str:
    """Make an image of files, unless the engine has it, and return its full name."""
    repository, tag = f"{PREFIX}/{name}".split(":")
    client = sdk.APIClient(base_url=host, timeout=120)
    try:
        with contextlib.suppress(sdk.errors.ImageNotFound):
            client.inspect_image(f"{repository}:{tag}")
            return f"{repository}:{tag}"
        client.import_image_from_data(files, repository=repository, tag=tag, changes=CHANGES)
    finally:
        client.close()
    return f"{repository}:{tag}"


@functools.cache
def base_image() -> str:
    """An image with a shell, coreutils, Python, tmux and ps."""
    return import_image(engine_host(), *base_files())


@functools.cache
def python_image() -> str:
    """The same with all of Python's standard library, and setsid."""
    return import_image(engine_host(), *base_files("python", "python3", "util-linux"))


@functools.cache
def busybox_image() -> str:
    """An image with nothing but BusyBox."""
    return import_image(engine_host(), *busybox_files())


def new_name() -> str:
    return f"{PREFIX}-{secrets.token_hex(6)}"


async def make_container(docker: Docker, image: str, **config) -> str:
    """Start a container that only sleeps, and return its name."""
    name = new_name()
    host = {"Init": True, "NetworkMode": "none", **config.pop("HostConfig", {})}
    body = {"Image": image, "Cmd": ["sleep", "3600"], "Labels": {LABEL: RUN}, "HostConfig": host}
    await life.create(docker, name, {**body, **config})
    await life.start(docker, name)
    return name


@contextlib.asynccontextmanager
async def container(docker: Docker, image: str, **config):
    """The same, removed at the end."""
    name = await make_container(docker, image, **config)
    try:
        yield name
    finally:
        with trio.CancelScope(shield=True):
            await life.remove(docker, name)


class Output:
    """What a command has written, and how it ended."""

    def __init__(self):
        self.stdout, self.stderr = bytearray(), bytearray()
        self.ended = None

    @property
    def text(self) -> str:
        return self.stdout.decode()


async def sh(docker: Docker, name: str, script: str, *, timeout=None, **command) -> Output:
    """Run a script of the shell in a container."""
    output = Output()
    output.ended = await run(
        docker,
        name,
        ContainerCommand(argv=["sh", "-c", script], **command),
        stdout=output.stdout.extend,
        stderr=output.stderr.extend,
        timeout=timeout,
    )
    return output
