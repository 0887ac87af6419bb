"""Instances of SWE-bench: real ones with images that stand in for the official ones, and synthetic ones.

The rows are real: five of them are in the wheel of the package nemo-gym, as they were published before version 5 of
SWE-bench. What that version adds to a row (image, script, log parser) is added here. The images are stand-ins: the tree
is that of the nearest release on the package index, not of the row's base commit, with the reference patch and the tests'
patch taken back; there is no conda in them. All of it is fetched when a test needs it, once for each machine.
"""

from __future__ import annotations

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
import zipfile
from collections.abc import Callable
from pathlib import Path

import attrs
import docker as sdk

from support.commandline import Program
from support.docker import PREFIX, RUN, base_files, engine_host, import_image
from support.git_server import git

ROWS = "responses_api_agents/mini_swe_agent_2/data/example.jsonl"
"""In the wheel of nemo-gym."""
SYMPY, PYLINT = "sympy__sympy-20916", "pylint-dev__pylint-4551"
PACKAGES = ("git", "python3", "patch", "util-linux")
START, END = ": '>>>>> Start Test Output'", ": '>>>>> End Test Output'"


@attrs.frozen(kw_only=True)
class StandIn:
    """How an image is made that stands in for an official one."""

    downloads: tuple[str, ...]
    """Of the package index, as options and requirements of `pip download --no-deps`."""
    archive: str
    """Name of the file with the tree."""
    is_fixed: bool
    """Whether the release has the solution and its tests, which are taken back then."""
    site: tuple[str, ...]
    """Other files of the downloads that are unpacked for Python to find."""
    testers: tuple[str, ...]
    """Packages copied from the Python that runs the tests."""
    test_command: str
    test_files: tuple[str, ...]
    log_parser: str


STAND_INS = {
    SYMPY: StandIn(
        downloads=("sympy==1.8", "mpmath==1.2.1"),
        archive="sympy-1.8-py3-none-any.whl",
        is_fixed=True,
        site=("mpmath-1.2.1-py3-none-any.whl",),
        testers=(),
        test_command="python3 -W ignore -c 'import sympy; "
        'sympy.test("sympy/printing/tests/test_conventions.py", verbose=True, colors=False, subprocess=False)\'',
        test_files=("sympy/printing/tests/test_conventions.py",),
        log_parser="parse_log_sympy",
    ),
    PYLINT: StandIn(
        downloads=(
            "pylint==2.8.3", "astroid==2.5.6", "setuptools==69.5.1", "wrapt==1.16.0", "lazy-object-proxy==1.12.0",
            "isort==5.13.2", "mccabe==0.6.1", "toml==0.10.2", "--no-binary=pylint",
        ),
        archive="pylint-2.8.3.tar.gz",
        is_fixed=False,
        site=("astroid", "setuptools", "wrapt", "lazy_object_proxy", "isort", "mccabe", "toml"),
        testers=("pytest", "pluggy", "iniconfig", "packaging", "pygments"),
        test_command="python3 -m pytest -rA -p no:cacheprovider -o addopts= tests/unittest_pyreverse_writer.py",
        test_files=("tests/unittest_pyreverse_writer.py",),
        log_parser="parse_log_pylint",
    ),
}  # fmt: skip


# --- what is fetched


@functools.cache
def fetched(name: str, *wanted: str) -> Path:
    """A directory with files of the package index, fetched unless they are there."""
    digest = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir(), f"{PREFIX}-swebench-{name}-{digest}")
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            part = place.with_suffix(f".{RUN}")
            options = ["--no-deps", "--quiet", "--ignore-requires-python", "--dest", str(part)]
            subprocess.run([*_pip(), "download", *options, *wanted], check=True, timeout=300)
            part.rename(place)
    return place


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    return ["uvx", "pip"] if shutil.which("uvx") else ["pip3"]


@functools.cache
def published_rows() -> dict[str, dict]:
    """The real rows, as they were published."""
    (wheel,) = fetched("rows", "nemo-gym==0.4.0").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        lines = file.read(ROWS).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    return {
        row["instance_id"]: {
            key: value for key, value in row.items() if isinstance(value, str | list)
        }
        for row in (row.get("instance", row) for row in rows)
    }


def real_row(name: str) -> dict:
    """A real row with what version 5 adds, for the image that stands in."""
    stand_in, row = STAND_INS[name], published_rows()[name]
    return {
        **row,
        "image": image(name),
        "eval_type": "pass_and_fail",
        "log_parser": stand_in.log_parser,
        "eval_script": eval_script(row["test_patch"], stand_in.test_command, stand_in.test_files),
    }


def eval_script(test_patch: str, command: str, files: tuple[str, ...]) -> str:
    """A script in the shape of the official ones."""
    names = " ".join(files)
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            "cd /testbed",
            "git config --global --add safe.directory /testbed",
            f"git checkout HEAD -- {names}",
            "git apply -v - <<'EOF_114329324912'",
            test_patch.rstrip("\n"),
            "EOF_114329324912",
            START,
            command,
            END,
            f"git checkout HEAD -- {names}",
            "",
        ]
    )


# --- images


@functools.cache
def image(name: str) -> str:
    """The stand-in's image, built unless the engine has it."""

    def fill(folder: Path) -> None:
        stand_in, row = STAND_INS[name], published_rows()[name]
        downloads = fetched(name, *stand_in.downloads)
        tree = folder / "testbed"
        _unpack(downloads / stand_in.archive, tree)
        for other in stand_in.site:
            (archive,) = downloads.glob(f"{other}*")
            _unpack(archive, folder / "usr/lib/python3/dist-packages")
        for package in stand_in.testers:
            _copy_package(package, folder / "usr/lib/python3/dist-packages")
        git(tree, "init", "--quiet", "--initial-branch=main", ".")
        if stand_in.is_fixed:
            for patch in ("patch", "test_patch"):
                (folder / "p").write_text(row[patch])
                git(tree, "apply", "-R", str(folder / "p"))
            (folder / "p").unlink()
        _commit(tree, "base")
        (folder / "p").write_text(row["patch"])
        git(tree, "apply", str(folder / "p"))
        (folder / "p").unlink()
        _commit(tree, "the solution, which agents must not find")
        git(tree, "tag", "solution")
        git(tree, "reset", "--quiet", "--hard", "HEAD~1")

    return built(f"swebench-{name}", fill, repr(STAND_INS[name]))


def _commit(tree: Path, message: str) -> None:
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "-m", message)


def _unpack(archive: Path, target: Path) -> None:
    """Unpack a wheel, or the one directory in a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            file.extractall(target)
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (tree,) = Path(folder).iterdir()
        shutil.copytree(tree, target, dirs_exist_ok=True)


def _copy_package(package: str, target: Path) -> None:
    for path in importlib.metadata.files(package) or ():
        if path.suffix != ".pyc" and ".." not in path.parts:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path.locate(), target / path)


def built(name: str, fill: Callable[[Path], None], content: str) -> str:
    """An image with git, bash and Python, and the files that `fill` puts into a folder."""
    base = import_image(engine_host(), *base_files("swebench", *PACKAGES))
    digest = hashlib.sha256(f"{base} {content}".encode()).hexdigest()[:16]
    tag = f"{PREFIX}/{name}:{digest}"
    lock_file = Path(tempfile.gettempdir(), f"{PREFIX}-{name}-{digest}.lock")
    client = sdk.APIClient(base_url=engine_host(), timeout=300)
    with lock_file.open("w") as lock, tempfile.TemporaryDirectory() as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not client.images(name=tag):
                fill(Path(folder))
                dockerfile = f"FROM {base}\nADD files.tar /\nENV PYTHONDONTWRITEBYTECODE=1\nWORKDIR /testbed\n"
                context = _context(Path(folder), dockerfile)
                steps = client.build(
                    fileobj=context,
                    custom_context=True,
                    tag=tag,
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                for step in steps:
                    assert "error" not in step, step
        finally:
            client.close()
    return tag


def _context(folder: Path, dockerfile: str) -> io.BytesIO:
    inner, outer = io.BytesIO(), io.BytesIO()

    def as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(fileobj=inner, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=as_root)
    with tarfile.open(fileobj=outer, mode="w") as tar:
        for name, data in (("Dockerfile", dockerfile.encode()), ("files.tar", inner.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    outer.seek(0)
    return outer


# --- synthetic instances


def _fill_trivial(folder: Path) -> None:
    tree = folder / "testbed"
    tree.mkdir()
    (tree / "calc.py").write_text(
        "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"
    )
    (tree / ".gitignore").write_text("*.log\n")
    git(tree, "init", "--quiet", "--initial-branch=main", ".")
    _commit(tree, "base")


@functools.cache
def trivial_image() -> str:
    """An image with a repository of one small module, whose addition subtracts."""
    return built("swebench-trivial", _fill_trivial, "1")


TRIVIAL_PATCH = (
    "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,5 +1,5 @@\n"
    " def add(a, b):\n-    return a - b\n+    return a + b\n \n \n def sub(a, b):\n"
)
TRIVIAL_TEST = """\
diff --git a/test_calc.sh b/test_calc.sh
new file mode 100644
--- /dev/null
+++ b/test_calc.sh
@@ -0,0 +1,4 @@
+for name in add:5 sub:1; do
+  got=$(python3 -c "import calc; print(calc.${name%:*}(3, 2))" 2>&1 | tail -n 1)
+  if [ "$got" = "${name#*:}" ]; then echo "PASSED test_calc.py::${name%:*}"; else echo "FAILED test_calc.py::${name%:*} - $got"; fi
+done
"""


def trivial_row(name: str = "toy__calc-1", *, image: str | None = None, **changes: object) -> dict:
    """A row for the trivial image, or another."""
    script = eval_script(TRIVIAL_TEST, "sh test_calc.sh", ()).replace("git checkout HEAD -- \n", "")
    return {
        "instance_id": name,
        "repo": "toy/calc",
        "base_commit": "0" * 40,
        "version": "1.0",
        "problem_statement": "add(3, 2) is 1.",
        "hints_text": "HINT: it is a minus",
        "patch": TRIVIAL_PATCH,
        "test_patch": TRIVIAL_TEST,
        "FAIL_TO_PASS": ["test_calc.py::add"],
        "PASS_TO_PASS": json.dumps(["test_calc.py::sub"]),
        "image": image or trivial_image(),
        "eval_type": "pass_and_fail",
        "log_parser": "parse_log_pytest",
        "eval_script": script,
        **changes,
    }


# --- runs


def run_rows(
    folder: Path, rows: list[dict], *, harness: str = "oracle", **params
) -> dict[str, dict]:
    """Run the program on rows, in containers without a network; return each task's last record."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"dataset_path": "rows.jsonl", **params}
    child = Program(folder).start(
        "run", "swebench_verified", harness, "none", "--env", "docker",
        "--benchmark-params", json.dumps(given),
        "--env-params", json.dumps({"host": engine_host(), "network": "none"}),
        "--task-concurrency", "3", "--min-coverage", "0", "--progress", "none", "--max-retries", "0",
        "--results-dir", "results",
    )  # fmt: skip
    said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, said + errors
    journal = max(folder.glob("results/*/*/attempts.jsonl"), key=lambda path: path.stat().st_mtime)
    records = [json.loads(line) for line in journal.read_bytes().splitlines()]
    return {record["task_id"]: record for record in records}
