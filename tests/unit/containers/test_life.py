"""Containers, networks and volumes: made, watched, removed for certain."""

import pytest
import trio

from agentcompass.containers import life, resources
from agentcompass.containers.errors import DockerError
from support.docker import LABEL, RUN, container, new_name, sh

pytestmark = pytest.mark.docker


def config(image, **more):
    host = {"Init": True, "NetworkMode": "none"}
    return {"Image": image, "Cmd": ["sleep", "3600"], "HostConfig": host, **more}


async def test_a_container_is_made_started_looked_at_and_removed(docker, image):
    name = new_name()
    identity = await life.create(docker, name, config(image))
    assert (await life.inspect(docker, name)).status == "created"
    await life.start(docker, name)
    await life.start(docker, name)
    state = await life.running(docker, name)
    assert (state.id, state.name, state.has_init) == (identity, name, True)
    assert state.pid > 0
    await life.remove(docker, name)
    assert await life.inspect(docker, name) is None


async def test_removing_what_is_not_there_is_fine(docker, box):
    await life.remove(docker, new_name())
    await life.remove(docker, box)
    await life.remove(docker, box)


async def test_removed_by_many_at_once_it_is_gone_for_each_of_them(docker, box):
    async def remove():
        await life.remove(docker, box)
        assert await life.inspect(docker, box) is None

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(remove)


async def test_a_name_that_is_taken_is_a_conflict(docker, image, box):
    with pytest.raises(DockerError) as caught:
        await life.create(docker, box, config(image))
    assert caught.value.code == "conflict"
    assert (await life.inspect(docker, box)).is_running


async def test_a_missing_image_is_told_as_such(docker):
    with pytest.raises(DockerError, match="agentcompass-test/nothing") as caught:
        await life.create(docker, new_name(), config("agentcompass-test/nothing"))
    assert caught.value.code == "no-such-image"
    assert not caught.value.retryable


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 10, 20, 40])
async def test_a_create_that_is_cancelled_leaves_nothing(docker, image, milliseconds):
    names, returned = [new_name() for _ in range(4)], set()

    async def create(name):
        await life.create(docker, name, config(image))
        returned.add(name)  # of those the caller knows

    with trio.move_on_after(milliseconds / 1000) as scope:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(create, name)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    for name in names:
        assert (await life.inspect(docker, name) is not None) == (name in returned)
        await life.remove(docker, name)


async def test_a_container_whose_program_is_missing_says_so_when_it_is_started(docker, image):
    name = new_name()
    await life.create(docker, name, {"Image": image, "Cmd": ["/no/such/program"]})
    try:
        with pytest.raises(DockerError, match="/no/such/program"):
            await life.start(docker, name)
        assert "/no/such/program" in (await life.inspect(docker, name)).error
    finally:
        await life.remove(docker, name)


async def test_a_container_that_is_not_running_says_how_it_ended(docker, image):
    name = new_name()
    await life.create(docker, name, config(image, Cmd=["sh", "-c", "echo why; exit 7"]))
    await life.start(docker, name)
    try:
        assert await life.wait(docker, name, seconds=60) == 7
        with pytest.raises(DockerError, match="exited, exit code 7") as caught:
            await life.running(docker, name)
        assert caught.value.code == "container-died"
        assert await life.logs(docker, name) == "why\n"
    finally:
        await life.remove(docker, name)
    with pytest.raises(DockerError, match="is gone"):
        await life.running(docker, name)


async def test_it_is_stopped_killed_and_started_anew(docker, box):
    await life.restart(docker, box)
    await sh(docker, box, "true")  # the first process hears signals now
    await life.stop(docker, box, grace=60)
    assert (await life.inspect(docker, box)).exit_code == 128 + 15
    await life.stop(docker, box)
    await life.kill(docker, box)
    await life.start(docker, box)
    await life.kill(docker, box)
    assert await life.wait(docker, box, seconds=60) == 128 + 9


async def test_files_outlive_a_restart_and_processes_do_not(docker, box):
    await sh(docker, box, "echo kept >/file; sleep 1000 >/dev/null 2>&1 &")
    await life.restart(docker, box)
    found = await sh(docker, box, "cat /file; ps -eo args")
    assert found.text.startswith("kept\n")
    assert "sleep 1000" not in found.text


async def test_a_paused_container_still_runs_and_goes_on(docker, box):
    await life.pause(docker, box)
    state = await life.inspect(docker, box)
    assert (state.status, state.is_running) == ("paused", True)
    await life.unpause(docker, box)
    assert (await sh(docker, box, "echo on")).text == "on\n"


async def test_containers_are_listed_by_all_of_their_labels(docker, image):
    mark = new_name()
    async with container(docker, image, Labels={"test.a": mark, "test.b": "2"}) as name:
        (found,) = await life.listed(docker, f"test.a={mark}", "test.b")
        assert (found.name, found.status, found.labels["test.b"]) == (name, "running", "2")
        assert await life.listed(docker, f"test.a={mark}", "test.b=3") == []
        assert await life.listed(docker, f"test.a={mark}", "test.c") == []


async def test_a_network_is_made_used_and_removed(docker, image):
    name = new_name()
    await resources.create_network(docker, name, {"Internal": True, "Labels": {LABEL: RUN + name}})
    try:
        (found,) = await resources.listed_networks(docker, f"{LABEL}={RUN}{name}")
        assert found.name == name
        async with container(docker, image, HostConfig={"NetworkMode": "bridge"}) as box:
            await resources.connect_network(docker, name, box, aliases=("server",))
            assert "eth1" in (await sh(docker, box, "cat /proc/net/dev")).text
            with pytest.raises(DockerError, match="active endpoints"):
                await resources.remove_network(docker, name)
            await resources.disconnect_network(docker, name, box)
            assert "eth1" not in (await sh(docker, box, "cat /proc/net/dev")).text
    finally:
        await resources.remove_network(docker, name)
    await resources.remove_network(docker, name)
    assert await resources.listed_networks(docker, f"{LABEL}={RUN}{name}") == []


async def test_a_volume_is_made_used_and_removed(docker, image):
    name = new_name()
    await resources.create_volume(docker, name, {LABEL: RUN + name})
    try:
        (found,) = await resources.listed_volumes(docker, f"{LABEL}={RUN}{name}")
        assert found.name == name
        async with container(docker, image, HostConfig={"Binds": [f"{name}:/data"]}) as box:
            await sh(docker, box, "echo x >/data/file")
            with pytest.raises(DockerError) as caught:
                await resources.remove_volume(docker, name)
            assert caught.value.code == "conflict"
    finally:
        await resources.remove_volume(docker, name)
    await resources.remove_volume(docker, name)
    assert await resources.listed_volumes(docker, f"{LABEL}={RUN}{name}") == []


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 5, 20])
async def test_a_network_of_a_cancelled_task_is_not_there(docker, milliseconds):
    name, is_returned = new_name(), False
    with trio.move_on_after(milliseconds / 1000):
        await resources.create_network(docker, name, {"Labels": {LABEL: name}})
        is_returned = True
    found = await resources.listed_networks(docker, f"{LABEL}={name}")
    await resources.remove_network(docker, name)
    assert len(found) == is_returned


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 5, 20])
async def test_a_volume_of_a_cancelled_task_is_not_there(docker, milliseconds):
    name, is_returned = new_name(), False
    with trio.move_on_after(milliseconds / 1000):
        await resources.create_volume(docker, name, {LABEL: name})
        is_returned = True
    found = await resources.listed_volumes(docker, f"{LABEL}={name}")
    await resources.remove_volume(docker, name)
    assert len(found) == is_returned


async def test_a_volume_of_that_name_is_a_conflict_and_stays(docker, image):
    name = new_name()
    await resources.create_volume(docker, name, {})
    try:
        with pytest.raises(DockerError) as caught:
            await resources.create_volume(docker, name, {})
        assert caught.value.code == "conflict"
        async with container(docker, image, HostConfig={"Binds": [f"{name}:/data"]}):
            pass
    finally:
        await resources.remove_volume(docker, name)
