"""Installing extras: with the real pip into an environment of its own, and with programs in its place that misbehave."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from agentcompass.components import installing
from agentcompass.components.installing import install, install_command
from agentcompass.errors import PreflightError
from support.installs import Index, Venv
from support.plugins import HARNESS, write_distribution

ENSURE = """
import sys, trio
from pathlib import Path
from agentcompass.components.base import LoadContext
from agentcompass.components.dependencies import ensure_extra, _is_missing
from agentcompass.errors import PreflightError

context = LoadContext(data_dir=Path("."), auto_install_dependencies=True, note=print)
is_present = lambda: not _is_missing("tiny-thing==1.0")

async def main():
    try:
        await ensure_extra("tiny", is_present=is_present, purpose="the test", ctx=context)
    except PreflightError as error:
        print("PreflightError", error)
        sys.exit(3)

trio.run(main)
import tiny_thing
print("goes on with", tiny_thing.version)
"""


# --- the real pip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Venv(tmp_path_factory.mktemp("venv") / "venv")


@pytest.fixture
def venv(made):
    """An environment in which this package says that it has the extra `tiny`."""
    before = set(made.site.iterdir())
    requires = ("base-thing<2", "tiny-thing==1.0; extra == 'tiny'")
    write_distribution(made.site, "agentcompass", modules={}, requires=requires)
    yield made
    packages = ["agentcompass", "tiny-thing", "base-thing", "plug"]
    subprocess.run(
        [made.python, "-m", "pip", "uninstall", "-q", "-y", *packages], capture_output=True, check=False
    )  # fmt: skip
    for path in set(made.site.iterdir()) - before:
        subprocess.run(["rm", "-rf", path], check=True)


@pytest.fixture
def index(tmp_path):
    with Index(tmp_path / "index") as served:
        served.add("tiny-thing", "1.0")
        served.add("tiny-thing", "1.1")
        yield served


def test_what_is_missing_is_installed_as_pinned_and_the_process_goes_on_with_it(venv, index):
    code, output = venv.run("-c", ENSURE, index=index.url)
    assert code == 0, output
    said = output.splitlines()
    assert said[0] == "installing tiny-thing==1.0 for the test"
    assert said[-2:] == [
        "installed tiny-thing==1.0, with 1 new package", "goes on with 1.0",
    ]  # fmt: skip
    code, output = venv.run("-c", ENSURE, index="http://127.0.0.1:9/")
    assert (code, output) == (0, "goes on with 1.0\n")


def test_of_two_processes_one_installs_and_the_other_waits_for_it(venv, index):
    index.gate.clear()
    first = venv.start("-c", ENSURE, index=index.url)
    assert index.asked.wait(60)
    second = venv.start("-c", ENSURE, index=index.url)
    assert second.stdout.readline().startswith("another process is installing")
    index.gate.set()
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert "installing tiny-thing" in outputs[0]
    assert outputs[1] == "goes on with 1.0\n"


def test_an_index_that_cannot_be_reached_is_told(venv):
    code, output = venv.run("-c", ENSURE, index="http://127.0.0.1:9/", retries=1)
    assert code == 3, output
    assert "PreflightError `" in output
    assert "failed with exit code 1" in output
    assert "The package index cannot be reached" in output


def test_an_index_that_has_it_not_is_told(venv, tmp_path):
    with Index(tmp_path / "empty") as empty:
        (tmp_path / "empty").mkdir()
        code, output = venv.run("-c", ENSURE, index=empty.url)
    assert code == 3, output
    assert "The package index has it not, or does not answer" in output


def test_what_this_package_needs_itself_is_not_replaced(venv, index):
    index.add("base-thing", "1.0")
    index.add("base-thing", "2.0")
    index.add("tiny-thing", "1.0", requires=("base-thing>=2",))
    code, output = venv.run("-c", ENSURE, index=index.url)
    assert code == 3, output
    assert "It does not go together with what is installed here" in output


def test_what_the_process_has_loaded_is_replaced_for_the_next_one(venv, index):
    index.add("tiny-thing", "0.9")
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "tiny-thing==0.9"]
    code, output = venv.run(*pip, index=index.url)
    assert code == 0, output
    code, output = venv.run("-c", f"import tiny_thing\n{ENSURE}", index=index.url)
    assert code == 3, output
    assert "replaced what this process has loaded: tiny-thing 0.9 by 1.0" in output
    assert "Run the same command again" in output
    code, output = venv.run("-c", f"import tiny_thing\n{ENSURE}", index=index.url)
    assert (code, output) == (0, "goes on with 1.0\n")


def test_a_harness_of_a_plug_in_gets_its_extra_from_the_command_line(venv, index, tmp_path):
    declared = 'id = "{id}"\n        extra = "tiny"\n        requires = ("tiny_thing",)'
    write_distribution(
        venv.site, "plug", modules={"plug_module": HARNESS.replace('id = "{id}"', declared.format(id="mine"))},
        entry_points="[agentcompass.harnesses]\nmine = plug_module:Mine\n", requires=("tiny-thing==1.0; extra == 'tiny'",),
    )  # fmt: skip
    (venv.site / "plug-1.0.dist-info" / "top_level.txt").write_text("plug_module\n")
    command = ("-m", "agentcompass.cli", "run", "humaneval", "mine", "none")
    chosen = ("--benchmark-params", '{"limit": 1}')

    def agentcompass(*options):
        return venv.run(*command, *chosen, *options, index=index.url, cwd=tmp_path)

    code, output = agentcompass()
    assert code == 3, output
    assert "the harness 'mine' needs tiny-thing==1.0" in output
    assert "`pip install 'plug[tiny]'`" in output
    code, output = agentcompass("--dry-run", "--auto-install-dependencies")
    assert code == 0, output
    assert "the harness 'mine' needs tiny-thing==1.0: a run installs that first" in output
    assert not (venv.site / "tiny_thing.py").exists()
    code, output = agentcompass("--auto-install-dependencies", "--progress", "plain")
    assert code == 0, output
    assert "installing tiny-thing==1.0 for the harness 'mine'" in output
    assert (venv.site / "tiny_thing.py").exists()


# --- programs in its place


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """Puts a real program in pip's place, found as uv is."""
    real = installing.importlib.util.find_spec
    hidden = lambda name: None if name in {"pip", "uv"} else real(name)  # noqa: E731
    monkeypatch.setattr(installing.importlib.util, "find_spec", hidden)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(script):
        program = folder / "uv"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return write


async def installed(is_done=lambda: False, tell=lambda _text: None, keeping=()):
    await install(["thing==1"], keeping=keeping, is_done=is_done, purpose="it", tell=tell)


def test_the_requirement_is_installed_into_this_interpreter(uv):
    program = uv("exit 0")
    command = install_command(["thing==1"], constraints="c.txt")
    assert command[0] == str(program)
    assert command[1:5] == ["pip", "install", "--python", sys.executable]
    assert command[5:] == ["--constraint", "c.txt", "thing==1"]


def test_without_pip_and_uv_the_error_says_so(uv, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PreflightError, match="neither pip nor uv"):
        install_command(["thing==1"])


async def test_two_requests_of_one_process_install_once(uv, tmp_path):
    marker = tmp_path / "installed"
    uv(f'echo "$1 $2" >> {marker}')
    async with trio.open_nursery() as nursery:
        nursery.start_soon(installed, marker.exists)
        nursery.start_soon(installed, marker.exists)
    assert marker.read_text().splitlines() == ["pip install"]


async def test_where_nothing_can_be_locked_it_is_installed_all_the_same(uv, tmp_path, monkeypatch):
    def no_locks(_file, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    marker = tmp_path / "installed"
    uv(f": > {marker}")
    await installed(marker.exists)
    assert marker.exists()


async def test_what_is_to_be_kept_is_told_to_the_installer(uv, tmp_path):
    uv(f'while [ "$1" != --constraint ]; do shift; done; cat "$2" > {tmp_path}/told')
    await installed(keeping=["attrs>=25.1", "httpx<0.29"])
    assert (tmp_path / "told").read_text() == "attrs>=25.1\nhttpx<0.29\n"


async def test_packages_that_cannot_be_written_are_told_before_anything_is_tried(
    uv, tmp_path, monkeypatch
):
    uv(f": > {tmp_path}/tried")
    monkeypatch.setattr(installing.os, "access", lambda *_args: False)
    with pytest.raises(PreflightError, match="cannot be written") as caught:
        await installed()
    assert "python -m venv" in caught.value.hint
    assert not (tmp_path / "tried").exists()


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("error: externally-managed-environment", "belongs to the system"),
        ("error: The interpreter at /usr is externally managed", "belongs to the system"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "Make room"),
        ("ERROR: [Errno 13] Permission denied: '/usr/lib'", "cannot be written"),
        ("error: Failed to fetch: https://example.com/simple/thing/", "cannot be reached"),
        ("Because thing was not found in the package registry", "has it not"),
        ("something nobody has ever seen", None),
    ],
)
async def test_a_failure_comes_with_the_installers_words_and_what_to_do(uv, said, hint):
    uv(f'echo "{said}" >&2; exit 7')
    with pytest.raises(PreflightError) as caught:
        await installed()
    assert f"failed with exit code 7:\n{said}" in caught.value.message
    assert hint is caught.value.hint is None or hint in caught.value.hint


async def test_people_are_told_what_the_installer_does_now_and_then(uv, monkeypatch):
    monkeypatch.setattr(installing, "PROGRESS_SECONDS", 0.0)
    uv(
        "echo Using Python 3.11; echo 'Collecting thing==1'; sleep 0.1; printf '   Downloading thing\\n'"
    )
    notes = []
    await installed(tell=notes.append)
    assert notes[0] == "installing thing==1 for it"
    assert notes[1:-1] == ["Collecting thing==1", "Downloading thing"]


async def test_a_hanging_installer_is_interrupted_and_then_killed_with_its_children(
    uv, tmp_path, monkeypatch
):
    monkeypatch.setattr(installing, "INSTALL_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(installing, "END_SECONDS", 0.5)
    uv(
        f"trap 'echo > {tmp_path}/interrupted' INT; sleep 600 & echo $! > {tmp_path}/pid; while :; do wait; done"
    )
    with pytest.raises(PreflightError, match=r"was not done after 0\.5 s"):
        await installed()
    assert (tmp_path / "interrupted").exists()
    assert ended(int((tmp_path / "pid").read_text()))


async def test_one_that_is_interrupted_in_time_cleans_up_by_itself(uv, tmp_path):
    uv(
        f"trap 'echo > {tmp_path}/cleaned; exit 1' INT; echo > {tmp_path}/begun; while :; do sleep 0.01; done"
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(installed)
        while not (tmp_path / "begun").exists():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert (tmp_path / "cleaned").exists()


def ended(pid):
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False
