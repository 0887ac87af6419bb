"""An engine that hangs, dies, or is cut off: every call ends in its time, with an error that says so."""

import pytest
import trio

from agentcompass.containers import archive, figures, life, processes, resources
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.client import connect
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from agentcompass.containers.run import program, run
from support.docker import container, make_container, new_name, sh
from support.relay import Relay

pytestmark = pytest.mark.docker

GRACE = 60
"""For a busy machine: what has no end would take for ever."""


@pytest.fixture
async def fragile(private):
    async with connect(private.host, call_seconds=1) as opened:
        yield opened


@pytest.fixture
async def victim(private):
    async with connect(private.host) as patient:
        return await make_container(patient, private.image)


async def talk(docker, name):
    async with program(docker, name, ContainerCommand(argv=["cat"]), end_seconds=1):
        pass


async def get_progress(docker, _name):
    await Images(docker).ensure("agentcompass-test/nothing")


CALLS = {
    "ping": lambda docker, _name: docker.ping(),
    "info": lambda docker, _name: docker.info(),
    "create": lambda docker, _name: life.create(docker, new_name(), {"Image": "x"}),
    "start": lambda docker, name: life.start(docker, name, seconds=1),
    "restart": lambda docker, name: life.restart(docker, name, seconds=1),
    "inspect": life.inspect,
    "wait": lambda docker, name: life.wait(docker, name, seconds=1),
    "stop": lambda docker, name: life.stop(docker, name, grace=0),
    "kill": life.kill,
    "pause": life.pause,
    "remove": lambda docker, name: life.remove(docker, name, seconds=1),
    "list": lambda docker, _name: life.listed(docker, "x"),
    "logs": life.logs,
    "create network": lambda docker, name: resources.create_network(docker, name, {}),
    "create volume": lambda docker, name: resources.create_volume(docker, name, {}),
    "remove network": resources.remove_network,
    "remove volume": resources.remove_volume,
    "run": lambda docker, name: sh(docker, name, "true", timeout=100),
    "program": talk,
    "end all": lambda docker, name: processes.end_all(docker, name, seconds=1),
    "figures": figures.read,
    "stat": lambda docker, name: archive.stat(docker, name, "/"),
    "read": lambda docker, name: archive.read(docker, name, "/etc/passwd"),
    "write": lambda docker, name: archive.write(docker, name, "/file", bytes(5_000_000)),
    "look for an image": get_progress,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_frozen_engine_ends_no_call_late(private, fragile, victim, call):
    with private.frozen(), pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
        await call(fragile, victim)
    assert caught.value.code == "engine-timeout"
    assert caught.value.retryable


async def test_a_frozen_engine_ends_no_transfer_late(private, fragile, victim, tmp_path):
    (tmp_path / "file").write_bytes(bytes(5_000_000))
    with private.frozen():
        for copy in (
            archive.upload(fragile, victim, tmp_path, "/copy"),
            archive.download(fragile, victim, "/etc", tmp_path / "copy"),
        ):
            with pytest.raises(DockerError, match=r"within|silent"), trio.fail_after(GRACE):
                await copy


async def test_an_engine_frozen_in_the_middle_of_a_download_ends_it(private, fragile, victim):
    await sh(fragile, victim, "head -c 300000000 /dev/zero >/big")
    async with trio.open_nursery() as nursery:

        async def freeze_soon():
            await trio.sleep(0.3)
            with private.frozen():
                await trio.sleep_forever()

        nursery.start_soon(freeze_soon)
        with pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
            await archive.read(fragile, victim, "/big")
        nursery.cancel_scope.cancel()
    assert caught.value.code == "engine-timeout"


async def test_an_engine_frozen_under_a_command_ends_it_after_its_time(private, fragile, victim):
    """The command's own limit, and then no more than is given for ending it."""
    async with trio.open_nursery() as nursery:

        async def freeze():
            await trio.sleep(1)
            with private.frozen():
                await trio.sleep_forever()

        nursery.start_soon(freeze)
        with pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
            await run(
                fragile,
                victim,
                ContainerCommand(argv=["sleep", "1000"]),
                stdout=lambda _data: None,
                stderr=lambda _data: None,
                timeout=3,
                end_seconds=2,
            )
        nursery.cancel_scope.cancel()
    assert caught.value.code == "engine-timeout"


async def test_an_engine_frozen_under_a_command_does_not_hold_up_a_cancellation(
    private, fragile, victim
):
    ended = trio.Event()

    async def work():
        with trio.move_on_after(2):
            await run(
                fragile,
                victim,
                ContainerCommand(argv=["sleep", "1000"]),
                stdout=lambda _data: None,
                stderr=lambda _data: None,
                end_seconds=2,
            )
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await trio.sleep(1)
        with private.frozen(), trio.fail_after(GRACE):
            await ended.wait()


async def test_a_create_that_is_cancelled_while_the_engine_is_frozen_leaves_nothing(
    private, fragile, victim
):
    """The engine does what it was asked before it was frozen; so the answer is awaited, and the container removed."""
    name = new_name()
    async with connect(private.host) as patient, trio.open_nursery() as nursery:

        async def create():
            with trio.move_on_after(1):
                body = {"Image": private.image, "Cmd": ["sleep", "60"]}
                await life.create(patient, name, body)

        with private.frozen():
            nursery.start_soon(create)
            await trio.sleep(2)
    assert await life.inspect(fragile, name) is None


async def test_an_engine_that_is_killed_under_calls_ends_them_and_serves_again(
    private, fragile, victim
):
    codes = []

    async def ask(call):
        try:
            await call
        except DockerError as error:
            codes.append(error.code)

    with trio.fail_after(GRACE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, life.wait(fragile, victim, seconds=1000))
            nursery.start_soon(ask, sh(fragile, victim, "sleep 1000"))
            await trio.sleep(1)
            await trio.to_thread.run_sync(private.kill)
    assert len(codes) == 2
    assert set(codes) <= {"engine-lost", "engine-unreachable"}
    with pytest.raises(DockerError) as caught:
        await fragile.ping()
    assert caught.value.code == "engine-unreachable"
    await trio.to_thread.run_sync(private.start_again)
    await fragile.ping()
    async with connect(private.host) as patient:
        await life.remove(patient, victim)
        assert await life.inspect(patient, victim) is None


async def test_a_connection_that_is_cut_in_the_middle_of_a_command_is_told(docker, image):
    """And the command is ended by another connection."""
    relay = Relay(docker.address.socket_path)
    async with container(docker, image) as name, relay.open(), connect(relay.url) as through:
        async with trio.open_nursery() as nursery:

            async def cut_soon():
                await trio.sleep(1)
                relay.cut()

            nursery.start_soon(cut_soon)
            with pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
                await sh(through, name, "echo begun; sleep 1000")
        assert caught.value.code == "engine-lost"
        assert "sleep 1000" not in (await sh(docker, name, "ps -eo args")).text


async def test_a_connection_that_is_closed_between_two_pieces_of_output_is_no_command_s_end(
    docker, image
):
    relay = Relay(docker.address.socket_path)
    async with container(docker, image) as name, relay.open(), connect(relay.url) as through:
        output = bytearray()
        async with trio.open_nursery() as nursery:

            async def close_when_ready():
                while not output:
                    await trio.sleep(0.01)
                await relay.close_theirs()

            nursery.start_soon(close_when_ready)
            with pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
                await run(
                    through,
                    name,
                    ContainerCommand(argv=["sh", "-c", "echo ready; sleep 1000"]),
                    stdout=output.extend,
                    stderr=output.extend,
                )
        assert caught.value.code == "engine-lost"
        assert caught.value.retryable
        assert output == b"ready\n"


async def test_a_connection_that_is_cut_in_the_middle_of_an_upload_is_told(docker, image, tmp_path):
    (tmp_path / "file").write_bytes(bytes(200_000_000))
    relay = Relay(docker.address.socket_path)
    async with container(docker, image) as name, relay.open(), connect(relay.url) as through:
        async with trio.open_nursery() as nursery:

            async def cut_soon():
                await trio.sleep(0.2)
                relay.cut()

            nursery.start_soon(cut_soon)
            with pytest.raises(DockerError) as caught, trio.fail_after(GRACE):
                await archive.upload(through, name, tmp_path, "/copy")
        assert caught.value.code == "engine-lost"
