"""Commands and programs in a container: what goes in, what comes out."""

import tracemalloc

import pytest
import trio

from agentcompass.components.environments.capture import HeadTail
from agentcompass.containers import life
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.errors import DockerError
from agentcompass.containers.run import program, run
from support.docker import container, sh

pytestmark = pytest.mark.docker


def command(*argv, **more):
    return ContainerCommand(argv=argv, **more)


async def test_output_errors_and_exit_code_come_back(docker, shared_name):
    ended = await sh(docker, shared_name, "echo out; echo err >&2; exit 3")
    assert (ended.stdout, ended.stderr, ended.ended.exit_code) == (b"out\n", b"err\n", 3)
    assert not ended.ended.timed_out


async def test_binary_output_comes_byte_by_byte_as_it_was_written(docker, shared_name):
    code = "import os; os.write(1, bytes(range(256)) * 300); os.write(2, b'\\x01\\x00\\xff' * 7)"
    kept, errors = bytearray(), bytearray()
    await run(
        docker,
        shared_name,
        command("python3", "-c", code),
        stdout=kept.extend,
        stderr=errors.extend,
    )
    assert bytes(kept) == bytes(range(256)) * 300
    assert bytes(errors) == b"\x01\x00\xff" * 7


async def test_input_is_handed_over_whole_and_ends(docker, shared_name):
    data = bytes(range(256)) * 20_000
    ended = await sh(docker, shared_name, "cat; echo done >&2", stdin=data)
    assert bytes(ended.stdout) == data
    assert ended.stderr == b"done\n"


@pytest.mark.parametrize(
    "script",
    ["true", "head -c 10 >/dev/null", "exec <&-; sleep 0.2; echo on"],
    ids=["not read", "read in part", "closed"],
)
async def test_input_that_nobody_reads_holds_nothing_up(docker, shared_name, script):
    with trio.fail_after(60):
        ended = await sh(docker, shared_name, script, stdin=bytes(5_000_000))
    assert ended.ended.exit_code == 0


async def test_without_input_a_command_reads_nothing(docker, shared_name):
    with trio.fail_after(60):
        assert (await sh(docker, shared_name, "cat; echo end")).text == "end\n"


async def test_environment_user_and_directory_are_the_commands_own(docker, box):
    ended = await sh(
        docker,
        box,
        'echo "$SECRET $(id -u) $(pwd)"',
        env={"SECRET": "s3 cr=et\n"},
        user="nobody",
        workdir="/var/tmp",
    )
    assert ended.text == "s3 cr=et\n 65534 /var/tmp\n"
    assert (await sh(docker, box, 'echo "<$SECRET> $(id -u)"')).text == "<> 0\n"
    assert "s3 cr" not in str((await life.inspect(docker, box)).details)


@pytest.mark.parametrize(
    "what",
    [
        {"argv": ["no-such-program"]},
        {"argv": ["/etc"]},
        {"argv": ["true"], "workdir": "/no/such/directory"},
        {"argv": ["true"], "user": "no-such-user"},
    ],
    ids=["no program", "a directory", "no directory", "no user"],
)
async def test_what_cannot_be_started_is_an_exit_code_with_the_engines_words(
    docker, shared_name, what
):
    said = bytearray()
    ended = await run(
        docker, shared_name, ContainerCommand(**what), stdout=said.extend, stderr=said.extend
    )
    assert ended.exit_code in (126, 127)
    assert not ended.is_started
    assert b"no-such" in said or b"no/such" in said or b"permission denied" in said


async def test_a_command_that_itself_ends_with_126_was_started(docker, shared_name):
    assert (await sh(docker, shared_name, "exit 126")).ended.is_started


async def test_a_signal_is_told_by_the_exit_code(docker, shared_name):
    assert (await sh(docker, shared_name, "kill -9 $$")).ended.exit_code == 137
    assert (await sh(docker, shared_name, "kill -TERM $$")).ended.exit_code == 143


async def test_a_program_that_closes_its_output_and_goes_on_is_waited_for(docker, shared_name):
    begin = trio.current_time()
    ended = await sh(docker, shared_name, "echo x; exec >&- 2>&-; sleep 1.5; exit 4")
    assert (ended.text, ended.ended.exit_code) == ("x\n", 4)
    assert trio.current_time() - begin >= 1.4


async def test_what_is_left_in_the_background_stays_and_holds_nothing_up(docker, box):
    with trio.fail_after(60):
        ended = await sh(docker, box, "echo first; sleep 1000 & exit 5")
    assert (ended.text, ended.ended.exit_code) == ("first\n", 5)
    assert "sleep 1000" in (await sh(docker, box, "ps -eo args")).text


async def test_a_gigabyte_of_zeros_costs_no_more_memory_than_is_kept(docker, shared_name):
    kept = HeadTail(100_000)
    tracemalloc.start()
    try:
        ended = await run(
            docker,
            shared_name,
            command("head", "-c", "1G", "/dev/zero"),
            stdout=kept.add,
            stderr=kept.add,
        )
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ended.exit_code == 0
    assert f"[... {2**30 - 100_000} bytes dropped ...]" in kept.text()
    assert peak < 4_000_000


async def test_a_line_of_forty_megabytes_comes_whole(docker, shared_name):
    ended = await sh(docker, shared_name, "head -c 40000000 /dev/zero | tr '\\0' x")
    assert len(ended.stdout) == 40_000_000
    assert set(ended.stdout) == {ord("x")}


async def test_a_terminal_is_one_and_its_output_is_one_stream(docker, shared_name):
    script = "test -t 0 && test -t 1 && test -t 2 && echo yes; echo err >&2"
    ended = await sh(docker, shared_name, script, tty=True)
    assert (ended.text, ended.stderr) == ("yes\r\nerr\r\n", b"")


async def test_a_terminal_is_given_input_and_its_end(docker, shared_name):
    with trio.fail_after(60):
        ended = await sh(docker, shared_name, "cat; echo end", tty=True, stdin=b"line\n")
    assert "line" in ended.text
    assert ended.text.endswith("end\r\n")


async def receive_until(running, words):
    got = b""
    with trio.fail_after(60):
        while words not in got:
            data = await running.receive()
            assert data, got
            got += data
    return got


async def test_a_program_is_talked_to(docker, shared_name):
    errors = bytearray()
    shell = command("sh", "-c", 'while read -r line; do echo "<$line>"; echo e >&2; done; exit 9')
    async with program(docker, shared_name, shell, stderr=errors.extend) as running:
        for word in (b"one", b"two"):
            await running.send(word + b"\n")
            await receive_until(running, b"<" + word + b">\n")
        await running.close_stdin()
        assert await running.receive() == b""
        assert await running.wait() == 9
    assert errors == b"e\ne\n"


async def test_output_is_given_in_pieces_no_longer_than_asked_for(docker, shared_name):
    async with program(docker, shared_name, command("printf", "abcdefg")) as running:
        pieces = [await running.receive(3) for _ in range(4)]
    assert pieces == [b"abc", b"def", b"g", b""]


async def test_a_terminal_has_the_size_that_it_is_given(docker, shared_name):
    shell = command("sh", tty=True)
    async with program(docker, shared_name, shell) as running:
        for rows, columns in ((50, 132), (20, 40)):
            await running.resize(rows, columns)
            await running.send(b"stty size\n")
            await receive_until(running, f"{rows} {columns}\r\n".encode())
        await running.close_stdin()
        with trio.fail_after(60):
            while await running.receive():
                pass
        assert await running.wait() == 0


async def test_a_program_that_is_not_waited_for_is_gone_afterwards(docker, box):
    async with program(docker, box, command("sh", "-c", "sleep 1000 & sleep 1000")):
        pass
    assert "sleep 1000" not in (await sh(docker, box, "ps -eo args")).text


async def test_a_container_that_dies_under_a_command_is_told(docker, image):
    async with container(docker, image) as name, trio.open_nursery() as nursery:

        async def kill_soon():
            await trio.sleep(0.5)
            await life.kill(docker, name)

        nursery.start_soon(kill_soon)
        with pytest.raises(DockerError, match="exit code 137") as caught, trio.fail_after(60):
            await sh(docker, name, "echo x; sleep 1000")
    assert caught.value.code == "container-died"


async def test_a_container_that_is_removed_under_a_command_is_told(docker, image):
    async with container(docker, image) as name, trio.open_nursery() as nursery:

        async def remove_soon():
            await trio.sleep(0.5)
            await life.remove(docker, name)

        nursery.start_soon(remove_soon)
        with pytest.raises(DockerError, match=r"is gone|removing") as caught, trio.fail_after(60):
            await sh(docker, name, "sleep 1000")
    assert caught.value.code == "container-died"


async def test_a_command_in_a_stopped_or_missing_container_is_told(docker, box):
    await life.kill(docker, box)
    await life.wait(docker, box, seconds=60)
    for name in (box, "agentcompass-test-nothing"):
        with pytest.raises(DockerError) as caught:
            await sh(docker, name, "true")
        assert caught.value.code == "container-died"


@pytest.mark.slow
async def test_a_hundred_and_twenty_eight_commands_run_at_once(docker, box):
    """Each waits for a file that is made when all are there: with any limit below, none would ever end."""
    n_commands, results = 128, []

    async def wait(number):
        ended = await sh(
            docker,
            box,
            f"echo >/tmp/{number}; while ! [ -e /go ]; do sleep 0.2; done; echo {number}",
        )
        results.append((ended.ended.exit_code, ended.text))

    with trio.fail_after(110):
        async with trio.open_nursery() as nursery:
            for number in range(n_commands):
                nursery.start_soon(wait, number)
            counted = ""
            while counted != f"{n_commands}\n":
                await trio.sleep(0.5)
                counted = (await sh(docker, box, "ls /tmp | grep -c .")).text
            assert results == []
            await sh(docker, box, "touch /go")
    assert sorted(results) == sorted((0, f"{number}\n") for number in range(n_commands))


@pytest.mark.slow
async def test_no_output_is_lost_while_the_machine_is_busy(docker, shared_name):
    busy = "import time; end = time.time() + 20\nwhile time.time() < end: pass"
    outputs = []

    async def say(number):
        outputs.append((await sh(docker, shared_name, f"echo {number}; echo {number} >&2")).text)

    async with trio.open_nursery() as burning:
        for _ in range(2):
            burning.start_soon(sh, docker, shared_name, f"exec python3 -c '{busy}'")
        with trio.fail_after(110):
            for first in range(0, 64, 8):
                async with trio.open_nursery() as nursery:
                    for number in range(first, first + 8):
                        nursery.start_soon(say, number)
        burning.cancel_scope.cancel()
    assert sorted(outputs, key=int) == [f"{number}\n" for number in range(64)]
