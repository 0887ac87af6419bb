"""What sandboxes reach, tried only against hosts that this test makes: containers with a small server."""

import contextlib

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker import namespace, relay
from agentcompass.containers import life, resources
from agentcompass.containers.client import connect
from agentcompass.errors import PreflightError
from support.docker import engine_host, make_container, new_name, python_image
from support.docker_sandboxes import docker_env, docker_sandbox

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

SERVER = """
import socket, threading
tcp = socket.create_server(("", 8000), backlog=200)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 53))

def answer_questions():
    while True:
        data, sender = udp.recvfrom(2000)
        udp.sendto(data, sender)

def talk(connection):
    with connection:
        data = b""
        while more := connection.recv(65536):  # until the other side has sent all
            data += more
        connection.sendall(b"you said " + data)

threading.Thread(target=answer_questions).start()
while True:
    threading.Thread(target=talk, args=tcp.accept()[:1]).start()
"""

TALK = """
import socket, sys
host, port, words = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode() * int(sys.argv[4])
with socket.create_connection((host, port), timeout=20) as talk:
    talk.sendall(words)
    talk.shutdown(socket.SHUT_WR)
    answer = b""
    while data := talk.recv(65536):
        answer += data
print(len(answer), answer[:20].decode())
"""

ASK_BY_UDP = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(3)
asking.sendto(b"name?", (sys.argv[1], 53))
print(asking.recv(2000))
"""

RAW = """
import socket, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
raw.sendto(b"\\0" * 20, (sys.argv[1], 0))
print("sent")
"""


@contextlib.asynccontextmanager
async def a_host():
    """A container with a server, and its address."""
    async with connect(engine_host()) as docker:
        name = await make_container(
            docker,
            python_image(),
            Cmd=["python3", "-c", SERVER],
            HostConfig={"NetworkMode": "bridge"},
        )
        try:
            state = await life.inspect(docker, name)
            address = state.details["NetworkSettings"]["IPAddress"]
            with trio.fail_after(30):
                while True:
                    with contextlib.suppress(OSError):
                        await (await trio.open_tcp_stream(address, 8000)).aclose()
                        break
                    await trio.sleep(0.05)
            yield name, address
        finally:
            await life.remove(docker, name)


@pytest.fixture
async def allowed():
    async with a_host() as found:
        yield found


@pytest.fixture
async def other():
    async with a_host() as found:
        yield found


def python(script, *words):
    return ["python3", "-c", script, *map(str, words)]


async def talk(session, host, port=8000, words="hi", count=1):
    return await session.exec(python(TALK, host, port, words, count), timeout=60)


async def test_only_the_allowed_host_is_reached(allowed, other):
    name, address = other
    async with docker_sandbox(
        allowed_hosts=(f"friend={allowed[1]}:8000",), cap_drop=("MKNOD",)
    ) as session:
        assert (await talk(session, "friend")).stdout == "11 you said hi\n"
        assert (await talk(session, "FRIEND")).stdout == "11 you said hi\n"
        for script, *words in (
            (TALK, name, 8000, "x", 1),  # by name
            (TALK, address, 8000, "x", 1),  # by address
            (TALK, allowed[1], 8000, "x", 1),  # and not even the allowed one
            (TALK, "friend", 8001, "x", 1),  # another port
            (ASK_BY_UDP, address),  # a resolver of its own
            (RAW, address),  # a packet of its own making, which only root may make
        ):
            result = await session.exec(python(script, *words), timeout=60)
            assert result.returncode == 1, (words, result)
            assert any(
                reason in result.stderr
                for reason in ("unreachable", "refused", "resolution", "not known")
            ), result.stderr
        devices = await session.exec("tail -n +3 /proc/net/dev | cut -d: -f1")
        assert devices.stdout.split() == ["lo"]


async def test_much_goes_through_both_ways_at_once(allowed):
    async with (
        docker_sandbox(allowed_hosts=(f"friend={allowed[1]}:8000",)) as session,
        trio.open_nursery() as nursery,
    ):
        answers = []

        async def one(number):
            answers.append((await talk(session, "friend", words=str(number), count=300_000)).stdout)

        for number in range(4):
            nursery.start_soon(one, number)
    assert {answer.split()[0] for answer in answers} == {"300009"}
    assert len({answer.split()[-1] for answer in answers}) == 4


async def test_no_sandbox_uses_up_our_descriptors(allowed, monkeypatch):
    monkeypatch.setattr(relay, "MAX_CONNECTIONS", 3)
    hold = """
import socket, time
held = []
for _ in range(50):
    held.append(socket.create_connection(("friend", 8000), timeout=5))
print("held", flush=True)
time.sleep(1000)
"""
    async with docker_sandbox(allowed_hosts=(f"friend={allowed[1]}:8000",)) as session:
        async with session.process(python(hold)) as holder:
            assert await holder.receive() == b"held\n"  # most of them only in the kernel's queue
        # They are gone, and others have their turn.
        assert (await talk(session, "friend")).stdout == "11 you said hi\n"


async def test_a_host_that_is_away_closes_the_connection():
    script = """
import socket
talk = socket.create_connection(("away", 9), timeout=20)
try:
    print(talk.recv(9))
except ConnectionResetError:
    print(b"")
"""
    async with docker_sandbox(allowed_hosts=("away=127.0.0.1:9",)) as session:
        assert (await session.exec(python(script))).stdout == "b''\n"


async def test_none_has_nothing(other):
    for params, plan in (({"network": "none"}, SandboxPlan()), ({}, SandboxPlan(network=False))):
        async with docker_sandbox(plan, **params) as session:
            assert "unreachable" in (await talk(session, other[1])).stderr
            devices = await session.exec("tail -n +3 /proc/net/dev | cut -d: -f1")
            assert devices.stdout.split() == ["lo"]


async def test_a_network_of_the_user_s_is_joined_if_it_is_there():
    name = new_name()
    with pytest.raises(PreflightError, match=f"docker network create {name}"):
        await docker_env(network=name).preflight()
    async with connect(engine_host()) as docker:
        await resources.create_network(docker, name, {"Internal": True})
        try:
            await docker_env(network=name).preflight()
            async with docker_sandbox(network=name) as session:
                devices = await session.exec("tail -n +3 /proc/net/dev | cut -d: -f1")
                assert sorted(devices.stdout.split()) == ["eth0", "lo"]
        finally:
            await resources.remove_network(docker, name)


async def test_allowed_hosts_need_an_engine_whose_name_spaces_can_be_entered(monkeypatch):
    await docker_env(allowed_hosts=("a",)).preflight()
    monkeypatch.setattr(namespace, "is_possible", lambda: False)
    with pytest.raises(PreflightError, match="allowed_hosts needs an engine on this machine"):
        await docker_env(allowed_hosts=("a",)).preflight()
