"""The connection to an engine, and what goes wrong with it."""

import os
import subprocess
import sys

import pytest
import trio

from agentcompass.containers import life
from agentcompass.containers.client import OLDEST_API, connect
from agentcompass.containers.errors import DockerError, as_docker_errors
from agentcompass.containers.wire import Ask, path_of
from support.docker import container
from support.relay import Relay
from support.scripts import ENVIRONMENT

pytestmark = pytest.mark.docker


async def test_a_version_is_agreed(docker):
    assert docker.version.api >= OLDEST_API
    assert docker.version.version
    await docker.ping()
    assert (await docker.info())["DockerRootDir"]


async def test_no_engine_is_an_error_that_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(DockerError, match=r"unix:///.*gone\.sock \(from DOCKER_HOST\)") as caught:
        async with connect(environ={"DOCKER_HOST": f"unix://{tmp_path}/gone.sock"}):
            pass
    assert caught.value.code == "engine-unreachable"
    assert caught.value.retryable
    assert "DOCKER_HOST" in caught.value.hint


def test_a_socket_that_may_not_be_used_comes_with_what_to_do():
    import httpx

    with pytest.raises(DockerError) as caught, as_docker_errors("answer", "unix:///x"):
        try:
            raise PermissionError(13, "Permission denied")
        except PermissionError as error:
            raise httpx.ConnectError("denied") from error
    assert "group docker" in caught.value.hint


async def serve(listener, answer):
    async with await listener.accept() as stream:
        await stream.receive_some()
        body = answer.encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("{}", "no Docker engine"),
        ('["x"]', "no Docker engine"),
        ("<html>", "no JSON"),
        ('{"ApiVersion": "1.20", "Version": "1.8"}', "1.20"),
        ('{"ApiVersion": "9.2", "MinAPIVersion": "9.0", "Version": "99"}', "9.0 to 9.2"),
    ],
    ids=["no version", "a list", "a page", "too old", "too new"],
)
async def test_what_is_no_engine_that_can_be_used_is_told(answer, words, nursery):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(serve, listener, answer)
    port = listener.socket.getsockname()[1]
    with pytest.raises(DockerError, match=words):
        async with connect(f"tcp://127.0.0.1:{port}"):
            pass
    await listener.aclose()


async def test_a_refusal_carries_status_and_the_engines_words(docker):
    with pytest.raises(DockerError, match="No such container: nobody") as caught:
        await life.start(docker, "nobody")
    assert caught.value.status == 404
    assert caught.value.code == "no-such-container"


@pytest.mark.parametrize("name", ["../../info", "a/b", "?x=1", "a b", "é"])
async def test_a_name_of_any_characters_is_a_name_and_no_path(docker, name):
    with pytest.raises(DockerError) as caught:
        await docker.call(Ask("POST", path_of("containers", name, "start"), "start it"))
    assert caught.value.status in (301, 400, 404)


async def test_a_call_has_a_deadline(docker, shared_name):
    begin = trio.current_time()
    with pytest.raises(DockerError, match=r"wait the container .* within 0 s") as caught:
        await life.wait(docker, shared_name, seconds=0.2)
    assert caught.value.code == "engine-timeout"
    assert trio.current_time() - begin < 10


async def test_two_hundred_calls_are_under_way_at_once(docker, image):
    codes = []

    async def wait(name):
        codes.append(await life.wait(docker, name, seconds=100))

    async with container(docker, image) as name, trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(wait, name)
        await trio.testing.wait_all_tasks_blocked(0.2)
        with trio.fail_after(20):
            await docker.ping()  # none of them keeps others waiting
        assert codes == []
        await life.kill(docker, name)
    assert codes == [137] * 200


async def test_connections_are_used_again(docker, host):
    relay = Relay(docker.address.socket_path)
    async with relay.open(), connect(relay.url) as through:
        for _ in range(10):
            await through.ping()
    assert relay.n_connections == 1


async def test_a_connection_that_breaks_in_a_call_is_told_and_nothing_is_asked_twice(docker, box):
    relay = Relay(docker.address.socket_path)
    async with relay.open(), connect(relay.url) as through, trio.open_nursery() as nursery:

        async def cut_soon():
            await trio.sleep(0.3)
            relay.cut()

        nursery.start_soon(cut_soon)
        with pytest.raises(DockerError) as caught:
            await life.wait(through, box, seconds=60)
        assert caught.value.code == "engine-lost"
        assert relay.n_connections == 1
        await through.ping()


TLS_PROGRAM = """
import sys, trio
from agentcompass.containers import archive, life
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.client import connect
from agentcompass.containers.run import run

async def main(image):
    async with connect() as docker:
        assert docker.address.origin == "https://127.0.0.1:2376", docker.address
        assert not docker.is_here
        await life.create(docker, "tls", {"Image": image, "Cmd": ["sleep", "60"]})
        await life.start(docker, "tls")
        data, kept = bytes(range(256)) * 4000, bytearray()
        command = ContainerCommand(argv=["cat"], stdin=data)
        ended = await run(docker, "tls", command, stdout=kept.extend, stderr=print, timeout=60)
        assert ended.exit_code == 0 and bytes(kept) == data, (ended, len(kept))
        await archive.write(docker, "tls", "/there", data)
        assert await archive.read(docker, "tls", "/there") == data
        slow = ContainerCommand(argv=["sleep", "987"])
        ended = await run(docker, "tls", slow, stdout=print, stderr=print, timeout=1)
        assert ended.timed_out and ended.n_killed == 1, ended
        await life.remove(docker, "tls")
    print("well")

trio.run(main, sys.argv[1])
"""


def test_an_engine_is_reached_over_tls(private):
    variables = {
        **ENVIRONMENT,
        "DOCKER_HOST": "tcp://127.0.0.1:2376",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": str(private.certificates),
    }
    ended = subprocess.run(
        [
            *("nsenter", f"--net=/run/netns/{private.netns}"),
            *(sys.executable, "-c", TLS_PROGRAM, private.image),
        ],
        env=variables,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.stdout == "well\n", ended.stderr


async def test_the_environment_is_that_of_the_process_unless_another_is_given(host, monkeypatch):
    monkeypatch.setitem(os.environ, "DOCKER_HOST", host)
    async with connect() as docker:
        assert docker.address.source == "DOCKER_HOST"
