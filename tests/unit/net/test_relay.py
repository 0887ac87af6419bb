"""Handing an answer on while it comes in."""

import pytest
import trio

from agentcompass.net.address import Address
from agentcompass.net.http import (
    BodyTooLargeError,
    ConnectionBrokenError,
    HttpClient,
    RequestBody,
    StalledError,
)
from agentcompass.testing import FakeEndpoint, Reaction

PIECES = (b"one ", b"two ", b"three")


async def relay(endpoint, take, *, idle_seconds=5.0, max_bytes=1000):
    address = Address.parse(endpoint.url)
    client = HttpClient(address, write_seconds=5)
    try:
        async with client.post(address, headers={}, body=RequestBody(b"{}")) as answer:
            await answer.relay(take, idle_seconds=idle_seconds, max_bytes=max_bytes)
    finally:
        await client.aclose()


class Taker:
    """Keeps what it gets; wants no more after so many pieces."""

    def __init__(self, wants=100, pause=0.0):
        self.got, self.wants, self.pause = b"", wants, pause

    async def __call__(self, piece):
        self.got += piece
        await trio.sleep(self.pause)
        return len(self.got) < self.wants


async def test_a_taker_may_take_longer_than_the_server_may_be_silent():
    take = Taker(pause=0.15)
    with FakeEndpoint(Reaction(chunks=PIECES, pause_seconds=0.01)) as endpoint:
        await relay(endpoint, take, idle_seconds=0.1)
    assert take.got == b"".join(PIECES)


async def test_a_taker_gets_what_comes_after_it_has_enough():
    take = Taker(wants=1)
    with FakeEndpoint(Reaction(chunks=PIECES)) as endpoint:
        await relay(endpoint, take)
    assert take.got == b"".join(PIECES)


async def test_an_end_that_does_not_come_is_not_waited_for_by_who_has_enough():
    take = Taker(wants=1)
    size = sum(map(len, Reaction(chunks=PIECES).wire()[:-1]))
    with FakeEndpoint(Reaction(chunks=PIECES, send_bytes=size, then="stall")) as endpoint:
        await relay(endpoint, take)
    assert take.got == b"".join(PIECES)


@pytest.mark.parametrize(
    ("then", "error"), [("stall", StalledError), ("reset", ConnectionBrokenError)]
)
async def test_an_answer_that_breaks_off_is_an_error_after_what_has_come(then, error):
    take = Taker()
    size = sum(map(len, Reaction(chunks=PIECES).wire()[:2]))
    broken = Reaction(chunks=PIECES, send_bytes=size, then=then)
    with FakeEndpoint(broken) as endpoint, pytest.raises(error):
        await relay(endpoint, take, idle_seconds=0.1)
    assert take.got == PIECES[0]


async def test_an_answer_that_is_too_long_is_cut():
    take = Taker(wants=10_000)
    too_long = pytest.raises(BodyTooLargeError)
    with FakeEndpoint(Reaction(chunks=[b"x" * 600] * 3)) as endpoint, too_long:
        await relay(endpoint, take, max_bytes=1000)
    assert len(take.got) <= 1000


async def test_what_a_taker_raises_is_raised():
    async def take(_piece):
        raise ZeroDivisionError

    with FakeEndpoint(Reaction(chunks=PIECES)) as endpoint, pytest.raises(ZeroDivisionError):
        await relay(endpoint, take)
