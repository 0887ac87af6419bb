"""Programs in sandboxes connect to this process: from every kind of sandbox, and to nothing else."""

import contextlib
import sys

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker import namespace
from agentcompass.errors import PreflightError, SandboxError
from support.docker_sandboxes import docker_env, docker_sandbox
from support.host import host, sandbox

CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as talk:
    talk.sendall(b"hello")
    print(talk.recv(100).decode())
"""

KINDS = {
    "host": {},
    "bubblewrap": {"isolation": "bubblewrap"},
    "bubblewrap without network": {"isolation": "bubblewrap", "network": "none"},
}


@contextlib.asynccontextmanager
async def answering(session):
    """Answers whoever connects; gives where that is."""
    async with session.listen() as inlet, trio.open_nursery() as nursery:

        async def answer(stream):
            async with stream:
                await stream.send_all(b"you said " + await stream.receive_some())

        nursery.start_soon(trio.serve_listeners, answer, [inlet.listener])
        yield inlet
        nursery.cancel_scope.cancel()


async def connect(session, inlet, python=sys.executable):
    argv = [python, "-c", CONNECT, inlet.host, str(inlet.port)]
    return await session.exec(argv, timeout=60)


@pytest.mark.parametrize("kind", KINDS)
async def test_programs_of_this_machine_reach_this_process(tmp_path, kind):
    await host(tmp_path, **KINDS[kind]).check_listening()
    async with sandbox(tmp_path, **KINDS[kind]) as session:
        async with answering(session) as inlet:
            assert (await connect(session, inlet)).stdout == "you said hello\n"
        assert "refused" in (await connect(session, inlet)).stderr


async def test_a_sandbox_without_a_network_is_reached_from_inside_only(tmp_path):
    async with (
        sandbox(tmp_path, **KINDS["bubblewrap without network"]) as session,
        answering(session) as inlet,
    ):
        with pytest.raises(OSError, match="failed"):
            await trio.open_tcp_stream(inlet.host, inlet.port)


async def test_an_enclosure_that_has_died_is_made_anew(tmp_path):
    async with sandbox(tmp_path, **KINDS["bubblewrap without network"]) as session:
        async with answering(session):
            pass
        await session._place.sweep()
        async with answering(session) as inlet:
            assert (await connect(session, inlet)).stdout == "you said hello\n"


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("network", ["none", "default"])
async def test_programs_in_containers_reach_this_process_and_others_do_not(network):
    await docker_env(network=network).check_listening()
    async with docker_sandbox(network=network) as session, answering(session) as inlet:
        assert (await connect(session, inlet, "python3")).stdout == "you said hello\n"
        with pytest.raises(OSError, match="failed"):
            await trio.open_tcp_stream(inlet.host, inlet.port)
        devices = (await session.exec("tail -n +3 /proc/net/dev | cut -d: -f1")).stdout.split()
        assert ("eth0" in devices) == (network == "default")


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
async def test_a_container_sees_nothing_of_another_s_inlet():
    async with docker_sandbox() as one, docker_sandbox() as other, answering(one) as inlet:
        assert (await connect(one, inlet, "python3")).stdout == "you said hello\n"
        assert "refused" in (await connect(other, inlet, "python3")).stderr


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
async def test_engines_whose_name_spaces_cannot_be_entered_are_refused_beforehand(monkeypatch):
    monkeypatch.setattr(namespace, "is_possible", lambda: False)
    with pytest.raises(PreflightError, match="needs an engine on this machine, and root"):
        await docker_env().check_listening()


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
async def test_a_container_that_is_not_what_it_seems_is_not_entered(monkeypatch):
    monkeypatch.setattr(namespace.Cgroups, "of", lambda *_: None)
    async with docker_sandbox() as session:
        with pytest.raises(SandboxError, match="is not the container's") as caught:
            async with session.listen():
                pass
    assert caught.value.code == "cannot-listen"


# --- directories that are shown


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "tool").write_text("#!/bin/sh\necho used\n")
    (folder / "tool").chmod(0o755)
    return SandboxPlan(shared={"/opt/agentcompass/tool-1": folder})


@pytest.mark.parametrize("kind", list(KINDS)[1:])
async def test_isolated_sandboxes_see_directories_that_are_shown_to_them(tmp_path, shared, kind):
    async with sandbox(tmp_path / "root", shared, **KINDS[kind]) as session:
        used = await session.exec(["/opt/agentcompass/tool-1/tool"])
        spoilt = await session.exec("echo x >/opt/agentcompass/tool-1/tool")
    assert (used.stdout, "Read-only" in spoilt.stderr) == ("used\n", True)


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
async def test_containers_see_directories_that_are_shown_to_them(shared):
    async with docker_sandbox(shared) as session:
        used = await session.exec(["/opt/agentcompass/tool-1/tool"])
        spoilt = await session.exec("echo x >/opt/agentcompass/tool-1/tool")
    assert (used.stdout, "Read-only" in spoilt.stderr) == ("used\n", True)


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
async def test_an_engine_that_does_not_see_this_machine_goes_without(tmp_path):
    plan = SandboxPlan(shared={"/opt/agentcompass/tool-1": tmp_path / "is not there"})
    async with docker_sandbox(plan) as session:
        assert not await session.exists("/opt/agentcompass/tool-1")
