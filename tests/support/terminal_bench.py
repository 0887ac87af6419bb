"""The real tasks of Terminal-Bench's first generation, images to build them on, and the same tasks in the Harbor format.

The tasks are in the source distribution of the package terminal-bench. It is fetched when a test needs it, once for
each machine; none of it is kept with the project, as its authors ask.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import docker as sdk
from ruamel.yaml import YAML

from support.docker import CHANGES, PREFIX, RUN, _add, base_files, engine_host

VERSION = "0.2.5"
OFFLINE = (
    *("hello-world", "fix-permissions", "sqlite-db-truncate", "new-encrypt-command"),
    "aimo-airline-departures",
)
"""Tasks whose images are built in a moment."""
MORE = (
    *("git-workflow-hack", "openssl-selfsigned-cert", "recover-obfuscated-files"),
    *("processing-pipeline", "decommissioning-service-with-sensitive-data"),
)
"""Others, with which there are ten."""
BASES = (
    *("python-3-13:20250620", "python-3-13:latest"),
    *("ubuntu-24-04:20250624", "ubuntu-24-04:latest"),
)
"""What the tasks' Dockerfiles begin with, below ghcr.io/laude-institute/t-bench."""
PACKAGES = ("python3", "util-linux", "git", "openssl", "gnupg", "gpg-agent")
TESTERS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Packages in pure Python, copied from the Python that runs the tests."""
TOOLS = ("apt-get", "curl", "dos2unix", "man", "mandb", "pip", "unix2dos", "uv", "uvx")
TOOL = Path(__file__).parent / "terminal_bench_tool.sh"
TOO_MUCH = (
    *("docker-compose.yaml", "run-tests.sh", "solution.sh", "solution.yaml", "task.yaml"),
    "tests",
)
"""Of a first-generation task: what does not belong to the environment."""
CHANGES_HERE = [*CHANGES, "WORKDIR /app", "ENV PYTHONDONTWRITEBYTECODE=1"]


@contextlib.contextmanager
def _locked():
    """One process of this machine at a time."""
    with Path(tempfile.gettempdir(), f"{PREFIX}-terminal-bench.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- the tasks


@functools.cache
def tasks_folder() -> Path:
    """The directory with all tasks, fetched unless it is there."""
    place = Path(tempfile.gettempdir(), f"{PREFIX}-terminal-bench-{VERSION}")
    with _locked():
        if not place.exists():
            part = place.with_suffix(f".{RUN}")
            with tempfile.TemporaryDirectory() as folder:
                _fetch(Path(folder))
                (archive,) = Path(folder).glob("*.tar.gz")
                with tarfile.open(archive) as tar:
                    tar.extractall(part, filter="data")
            part.rename(place)
    return place / f"terminal_bench-{VERSION}" / "tasks"


def _fetch(folder: Path) -> None:
    options = ["--no-deps", "--ignore-requires-python", "--no-binary", "terminal-bench"]
    what = [f"terminal-bench=={VERSION}", "--dest", str(folder), "--quiet"]
    subprocess.run([*_pip(), "download", *options, *what], check=True, timeout=300)


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if shutil.which("pip3"):
        return ["pip3"]
    return ["uvx", "pip"]


def copied(folder: Path, *names: str) -> Path:
    """Copy tasks into a folder as they are."""
    for name in names:
        shutil.copytree(tasks_folder() / name, folder / name, symlinks=True)
    return folder


# --- images


@functools.cache
def base_image() -> str:
    """The image that the tasks are built on, with the names that their Dockerfiles call it."""
    name, files = _files()
    repository, tag = name.split(":")
    with (
        _locked(),
        contextlib.closing(sdk.APIClient(base_url=engine_host(), timeout=300)) as client,
    ):
        if not client.images(name=name):
            _forget_older(client, repository)
            client.import_image_from_data(
                files, repository=repository, tag=tag, changes=CHANGES_HERE
            )
        for other in BASES:
            base, version = other.split(":")
            client.tag(name, f"ghcr.io/laude-institute/t-bench/{base}", version)
    return name


def _forget_older(client: sdk.APIClient, repository: str) -> None:
    """Remove what was built on other files: it is found by the content of the tasks alone."""
    older = client.images(name=repository)
    layers = {client.inspect_image(image["Id"])["RootFS"]["Layers"][0] for image in older}
    for image in client.images():
        if client.inspect_image(image["Id"])["RootFS"]["Layers"][0] in layers:
            for name in set(image["RepoTags"] or ()) - {"<none>:<none>"}:
                client.remove_image(name, force=True)


def _files() -> tuple[str, bytes]:
    """Name and files of the image: of packages of this machine, pytest, and what stands in for installers."""
    _, content = base_files("terminal-bench", *PACKAGES)
    file = io.BytesIO(content)
    with tarfile.open(fileobj=file, mode="a") as tar:
        for directory in ("app", "usr/share/man/man1"):
            _add(tar, f"./{directory}", type=tarfile.DIRTYPE, mode=0o755)
        for package in TESTERS:
            for path in importlib.metadata.files(package) or ():
                if path.suffix != ".pyc" and ".." not in path.parts:
                    target = f"./usr/lib/python3/dist-packages/{path}"
                    _add(tar, target, path.read_binary())
        tool = TOOL.read_bytes()
        _add(tar, f"./usr/local/bin/{TOOLS[0]}", tool, mode=0o755)
        for other in TOOLS[1:]:
            link = f"./usr/local/bin/{other}"
            _add(tar, link, type=tarfile.SYMTYPE, linkname=TOOLS[0])
        _add(tar, "./usr/local/bin/python", type=tarfile.SYMTYPE, linkname="/usr/bin/python3")
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    return f"{PREFIX}/terminal-bench:{digest[:16]}", file.getvalue()


# --- the Harbor format


def converted(folder: Path, *names: str) -> Path:
    """Write tasks into a folder in the Harbor format."""
    for name in names:
        _convert(tasks_folder() / name, folder / name)
    return folder


def _convert(task: Path, target: Path) -> None:
    said = YAML(typ="safe").load((task / "task.yaml").read_text())
    instruction = said.get("instruction") or said["descriptions"][0]["description"]
    environment, tests, solution = (target / name for name in ("environment", "tests", "solution"))
    shutil.copytree(task, environment, symlinks=True)
    for name in TOO_MUCH:
        path = environment / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.copytree(task / "tests", tests)
    shutil.copy(task / "run-tests.sh", tests)
    (tests / "test.sh").write_text(TEST_SH)
    solution.mkdir()
    (solution / "solve.sh").write_text(_solution(task))
    (target / "instruction.md").write_text(instruction)
    (target / "task.toml").write_text(_toml(said))


TEST_SH = """\
#!/bin/bash
export TEST_DIR=/tests
if bash /tests/run-tests.sh; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""


def _solution(task: Path) -> str:
    script = task / "solution.sh"
    if script.exists():
        return script.read_text()
    commands = YAML(typ="safe").load((task / "solution.yaml").read_text())
    return "\n".join(item["command"] for item in commands) + "\n"


def _toml(said: dict) -> str:
    metadata = {
        key: said[key] for key in ("difficulty", "category", "tags", "author_name") if key in said
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in metadata.items()]
    return "\n".join(
        [
            'version = "1.0"',
            "[metadata]",
            *lines,
            "[agent]",
            f"timeout_sec = {float(said['max_agent_timeout_sec'])}",
            "[verifier]",
            f"timeout_sec = {float(said['max_test_timeout_sec'])}",
            "[environment]",
            'memory = "2G"',
            "cpus = 1",
            "allow_internet = false",
            "",
        ]
    )
