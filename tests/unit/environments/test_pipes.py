"""The pipes and terminals of a command: whole or not at all, and read to their end."""

import errno
import os
import resource
from contextlib import contextmanager

import pytest
import trio

from agentcompass.components.environments import pipes
from support.descriptors import open_files


@contextmanager
def room_for(count):
    """Let this process open only so many files more."""
    taken, limits = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = 0
    for _ in range(count + 1):
        highest += 1
        while highest - 1 in taken:
            highest += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest - 1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def for_helper():
    return pipes.for_helper(os.open(os.devnull, os.O_RDONLY))


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (lambda: pipes.for_exec(b"input"), 5),
        (lambda: pipes.for_exec(b""), 5),
        (pipes.for_program, 5),
        (for_helper, 4),
    ],
    ids=["command with input", "command", "program", "helper"],
)
def test_streams_that_cannot_all_be_made_cost_no_descriptor(make, needed):
    before = open_files()
    for room in range(needed):
        with room_for(room), pytest.raises(OSError, match="Too many open files") as caught:
            make()
        assert caught.value.errno == errno.EMFILE
        assert open_files() <= before
    with room_for(needed):
        streams = make()
    assert len(open_files() - before) == needed
    streams.close()
    streams.close()
    assert open_files() <= before


def test_closing_the_input_twice_closes_nothing_else():
    streams = pipes.for_program()
    streams.close_stdin()
    other = os.open(os.devnull, os.O_RDONLY)
    streams.close_stdin()
    os.close(other)
    streams.close()


async def test_the_output_of_a_terminal_that_nobody_has_any_more_is_at_its_end():
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    os.write(theirs, b"last words")
    os.close(theirs)
    assert await pipes.read(ours) == b"last words"
    assert await pipes.read(ours) == b""
    os.close(ours)


async def test_more_than_a_pipe_holds_is_written_as_it_is_read(autojump_clock):
    streams = pipes.for_program()
    data, received = os.urandom(1 << 20), bytearray()

    async def read():
        theirs = streams.child[0]
        os.set_blocking(theirs, False)
        while len(received) < len(data):
            received.extend(await pipes.read(theirs))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await pipes.write(streams.stdin, data)
    assert bytes(received) == data
    streams.close()


async def test_writing_to_what_nobody_reads_is_an_error():
    streams = pipes.for_program()
    streams.close_child()
    with pytest.raises(BrokenPipeError):
        await pipes.write(streams.stdin, b"x")
    streams.close()
