"""POST requests with every failure one of four."""

import gzip
import json

import pytest
import trio

from agentcompass.net.address import Address
from agentcompass.net.http import (
    BodyTooLargeError,
    ConnectFailedError,
    ConnectionBrokenError,
    HttpClient,
    RequestBody,
    StalledError,
)
from agentcompass.testing import (
    FakeEndpoint,
    Reaction,
    chat,
    error,
    events,
    no_answer,
    redirect,
    stream,
)


async def post(endpoint, *, take=None, idle_seconds=5.0, max_bytes=10_000_000, times=1, body=b"{}"):
    """Send requests on one client; return status and body of the last."""
    address = Address.parse(getattr(endpoint, "base_url", endpoint))
    client, chunks = HttpClient(address, write_seconds=5), []
    try:
        for _ in range(times):
            chunks.clear()
            async with client.post(
                address, headers={"X-Own": "1"}, body=RequestBody(body)
            ) as answer:
                await answer.read(
                    take or (lambda chunk: chunks.append(chunk) or True),
                    idle_seconds=idle_seconds,
                    max_bytes=max_bytes,
                )
        return answer.status, b"".join(chunks)
    finally:
        await client.aclose()


async def test_a_request_arrives_whole():
    with FakeEndpoint(chat("x")) as endpoint:
        status, body = await post(endpoint, body=b'{"a": 1}')
    seen = endpoint.requests[0]
    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "x")
    assert (seen.method, seen.target, seen.json) == ("POST", "/v1", {"a": 1})
    assert seen.headers["host"] == f"127.0.0.1:{endpoint.port}"
    assert seen.headers["x-own"] == "1"


async def test_a_user_in_the_url_becomes_a_header_and_leaves_the_url():
    with FakeEndpoint(chat("x")) as endpoint:
        await post(endpoint.url.replace("//", "//me:pass@"))
    seen = endpoint.requests[0]
    assert seen.headers["authorization"] == "Basic bWU6cGFzcw=="
    assert "pass" not in seen.headers["host"] + seen.target


@pytest.mark.parametrize("status", [204, 307, 404, 500])
async def test_any_status_is_an_answer(status):
    reaction = redirect("http://elsewhere.invalid/") if status == 307 else error(status)
    with FakeEndpoint(reaction.but(body=b"") if status == 204 else reaction) as endpoint:
        assert (await post(endpoint))[0] == status
    assert len(endpoint.requests) == 1


async def test_a_compressed_answer_is_unpacked():
    packed = Reaction(headers={"content-encoding": "gzip"}, body=gzip.compress(b"hello" * 100))
    with FakeEndpoint(packed) as endpoint:
        assert (await post(endpoint))[1] == b"hello" * 100


async def test_silence_in_the_middle_of_a_body_is_a_stall():
    with FakeEndpoint(chat("x" * 1000).but(send_bytes=500, then="stall")) as endpoint:
        with pytest.raises(StalledError):
            await post(endpoint, idle_seconds=0.05)
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_the_first_chunk_may_take_longer_than_later_ones():
    head_only = chat("x").but(delay_seconds=0.2)
    with FakeEndpoint(head_only) as endpoint:
        assert (await post(endpoint, idle_seconds=0.05))[0] == 200


async def test_a_slow_but_living_stream_is_no_stall():
    with FakeEndpoint(stream(*"abcdefgh").but(pause_seconds=0.05)) as endpoint:
        assert b"[DONE]" in (await post(endpoint, idle_seconds=0.4))[1]


async def test_a_body_above_the_limit_is_refused_before_it_is_all_here():
    with FakeEndpoint(chat("x" * 2_000_000)) as endpoint:
        with pytest.raises(BodyTooLargeError):
            await post(endpoint, max_bytes=100_000)
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_body_that_breaks_off_is_a_broken_connection(then):
    with (
        FakeEndpoint(chat("x" * 1000).but(send_bytes=500, then=then)) as endpoint,
        pytest.raises(ConnectionBrokenError),
    ):
        await post(endpoint)


async def test_no_answer_is_a_broken_connection():
    with FakeEndpoint(no_answer()) as endpoint, pytest.raises(ConnectionBrokenError):
        await post(endpoint)


async def test_what_is_not_http_is_a_broken_connection():
    class Greeting(Reaction):
        def wire(self):
            return [b"220 mail.example ESMTP\r\n\r\n"]

    with (
        FakeEndpoint(Greeting(then="close", send_bytes=100)) as endpoint,
        pytest.raises(ConnectionBrokenError),
    ):
        await post(endpoint)


async def test_nobody_listening_is_a_failed_connection():
    with FakeEndpoint() as endpoint:
        pass
    with pytest.raises(ConnectFailedError):
        await post(endpoint)


async def test_a_reader_that_has_enough_keeps_the_connection():
    with FakeEndpoint(events([1, 2, 3])) as endpoint:
        await post(endpoint, take=lambda chunk: b"DONE" not in chunk, times=3)
        assert endpoint.n_connections == 1


async def test_an_answer_that_breaks_after_all_that_matters_is_no_error():
    whole = stream("x")
    size = sum(map(len, whole.wire())) - len(b"0\r\n\r\n")
    with FakeEndpoint(whole.but(send_bytes=size, then="reset")) as endpoint:
        assert (await post(endpoint, take=lambda chunk: b"DONE" not in chunk))[0] == 200


async def test_a_server_that_does_not_end_its_answer_is_not_waited_for():
    whole = stream("x")
    size = sum(map(len, whole.wire())) - len(b"0\r\n\r\n")
    with FakeEndpoint(whole.but(send_bytes=size, then="stall")) as endpoint:
        assert (await post(endpoint, take=lambda chunk: b"DONE" not in chunk))[0] == 200
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_what_the_reader_raises_comes_out():
    def fail(_chunk):
        raise LookupError("mine")

    with (
        FakeEndpoint(events(list(range(100)))) as endpoint,
        pytest.raises(LookupError, match="mine"),
    ):
        await post(endpoint, take=fail)


async def test_cancellation_comes_out_as_cancellation():
    with FakeEndpoint(no_answer("stall")) as endpoint:
        with trio.move_on_after(10) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, endpoint)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                scope.cancel()
    assert scope.cancelled_caught
