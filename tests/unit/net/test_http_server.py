"""One connection of the HTTP server, with a client that writes bytes as it likes."""

import contextlib
import json

import pytest
import trio
import trio.testing

from agentcompass.net.http_server import Bounds, RefusedError, serve

LIMIT = 1000


class Echo:
    """Answers with what it was asked; its behaviour can be replaced."""

    def __init__(self):
        self.asked = []
        self.cancelled = trio.Event()

    def admit(self, asked):
        if asked.headers.get("authorization") == "wrong":
            raise RefusedError(401)

    def explain(self, status):
        return {"Content-Type": "application/json"}, json.dumps({"status": status}).encode()

    async def answer(self, asked, out):
        self.asked.append(asked)
        await out.whole(200, {"X-Method": asked.method}, asked.body or b"nothing")


@contextlib.asynccontextmanager
async def served(service, **bounds):
    """A client's end of a connection that is served; `ended` says when the server is done with it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        ended = trio.Event()

        async def one():
            async with listener, await listener.accept() as stream:
                await serve(stream, service, Bounds(max_body_bytes=LIMIT, **bounds))
            ended.set()

        nursery.start_soon(one)
        port = listener.socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            client.ended = ended
            yield client
        nursery.cancel_scope.cancel()


def request(method="POST", target="/", body=b"", **headers):
    lines = [f"{method} {target} HTTP/1.1", "Host: x"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_answer(client, *, rest=b""):
    """Status, headers, body and what came after that, of an answer with a length."""
    data = rest
    while b"\r\n\r\n" not in data:
        more = await client.receive_some()
        assert more, f"closed after {data!r}"
        data += more
    head, _, data = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    size = int(headers.get("content-length", 0))
    while len(data) < size:
        data += await client.receive_some()
    return int(first.split()[1]), headers, data[:size], data[size:]


async def read_all(client):
    data = b""
    with contextlib.suppress(trio.BrokenResourceError):
        while more := await client.receive_some():
            data += more
    return data


async def test_one_connection_serves_many_requests():
    async with served(Echo()) as client:
        for number in range(3):
            await client.send_all(request(body=b"hello %d" % number))
            status, _, body, rest = await read_answer(client)
            assert (status, body, rest) == (200, b"hello %d" % number, b"")


async def test_requests_sent_before_their_turn_are_answered_in_order():
    async with served(Echo()) as client:
        await client.send_all(b"".join(request(body=b"no %d" % n) for n in range(5)))
        rest, bodies = b"", []
        for _ in range(5):
            _, _, body, rest = await read_answer(client, rest=rest)
            bodies.append(body)
    assert bodies == [b"no %d" % n for n in range(5)]


async def test_a_request_in_chunks_is_put_together():
    async with served(Echo()) as client:
        await client.send_all(request(Transfer_Encoding="chunked"))
        for piece in (b"5\r\nhe", b"llo\r\n1;x=y\r\n!\r\n", b"0\r\n", b"\r\n"):
            await client.send_all(piece)
            await trio.testing.wait_all_tasks_blocked()
        assert (await read_answer(client))[2] == b"hello!"


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked():
    async with served(Echo()) as client:
        head = request(body=b"later", Expect="100-continue").removesuffix(b"later")
        await client.send_all(head)
        assert (await read_answer(client))[0] == 100
        await client.send_all(b"later")
        assert (await read_answer(client))[2] == b"later"


async def test_a_client_that_is_refused_is_never_asked_for_its_body():
    async with served(Echo()) as client:
        head = request(body=b"x" * 500, Expect="100-continue", Authorization="wrong")
        await client.send_all(head.removesuffix(b"x" * 500))
        status, headers, body, _ = await read_answer(client)
        assert (status, headers["connection"], json.loads(body)) == (401, "close", {"status": 401})
        assert await read_all(client) == b""


async def test_who_is_refused_with_its_body_on_the_way_can_read_why():
    async with served(Echo()) as client:
        await client.send_all(request(body=b"x" * LIMIT, Authorization="wrong"))
        assert (await read_answer(client))[0] == 401


@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_a_body_that_is_too_long_is_refused(framing):
    service = Echo()
    async with served(service) as client:
        if framing == "length":
            await client.send_all(request(body=b"x" * (LIMIT + 1)))
        else:
            chunk = b"%x\r\n%b\r\n" % (LIMIT, b"x" * LIMIT)
            await client.send_all(request(Transfer_Encoding="chunked") + 2 * chunk)
        status, _, body, _ = await read_answer(client)
    assert (status, json.loads(body)) == (413, {"status": 413})
    assert service.asked == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000, 431),
    ],
    ids=["words", "no host", "two hosts", "length", "lengths", "coding", "chunk", "long head"],
)
async def test_what_is_no_request_is_refused(sent, status):
    async with served(Echo()) as client:
        await client.send_all(sent)
        assert (await read_answer(client))[0] == status


async def test_a_half_closed_client_gets_its_answer():
    async with served(Echo()) as client:
        await client.send_all(request(body=b"bye"))
        await client.send_eof()
        assert (await read_answer(client))[2] == b"bye"
        assert await read_all(client) == b""
        await client.ended.wait()


async def test_a_body_that_ends_too_early_is_refused():
    async with served(Echo()) as client:
        await client.send_all(request(body=b"x" * 100)[:-50])
        await client.send_eof()
        assert (await read_answer(client))[0] == 400


async def test_head_has_the_length_of_a_body_and_none():
    async with served(Echo()) as client:
        await client.send_all(request("HEAD") + request(body=b"next"))
        data = b""
        while data.count(b"HTTP/1.1") < 2 or not data.endswith(b"next"):
            data += await client.receive_some()
    assert b"Content-Length: 7\r\n\r\nHTTP/1.1 200" in data


async def test_a_client_of_http_1_0_gets_what_it_understands():
    class Streaming(Echo):
        async def answer(self, asked, out):
            await out.begin(200, {})
            for piece in (b"one ", b"two"):
                await out.send(piece)
            await out.finish()

    async with served(Streaming()) as client:
        await client.send_all(b"GET / HTTP/1.0\r\nHost: x\r\n\r\n")
        data = await read_all(client)
    assert data.endswith(b"\r\n\r\none two")


async def test_each_piece_goes_out_as_it_comes():
    go_on = trio.Event()

    class Streaming(Echo):
        async def answer(self, asked, out):
            await out.begin(200, {})
            await out.send(b"first")
            await go_on.wait()
            await out.finish()

    async with served(Streaming()) as client:
        await client.send_all(request())
        data = b""
        while b"5\r\nfirst\r\n" not in data:
            data += await client.receive_some()
        go_on.set()
        while not data.endswith(b"0\r\n\r\n"):
            data += await client.receive_some()


async def test_an_answer_that_is_left_unfinished_is_cut():
    class Broken(Echo):
        async def answer(self, asked, out):
            await out.begin(200, {})
            await out.send(b"half")

    async with served(Broken()) as client:
        await client.send_all(request())
        data = await read_all(client)
    assert data.endswith(b"4\r\nhalf\r\n")  # without the end


async def test_a_client_that_goes_away_ends_the_work_for_it():
    service = Echo()
    begun = trio.Event()

    class Slow(Echo):
        async def answer(self, asked, out):
            begun.set()
            try:
                await trio.sleep_forever()
            finally:
                service.cancelled.set()

    async with served(Slow()) as client:
        await client.send_all(request())
        await begun.wait()
        client.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.aclose()  # a reset
        await service.cancelled.wait()
        await client.ended.wait()


async def test_a_client_that_does_not_read_is_given_up():
    class Endless(Echo):
        async def answer(self, asked, out):
            await out.begin(200, {})
            while True:
                await out.send(b"x" * 1_000_000)

    async with served(Endless(), write_seconds=0.1) as client:
        await client.send_all(request())
        await client.ended.wait()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", request(body=b"x" * 100)[:-50]])
async def test_a_client_that_falls_silent_is_given_up(sent):
    seconds = {"head_seconds": 0.1, "body_seconds": 0.1, "idle_seconds": 0.1}
    async with served(Echo(), **seconds) as client:
        if sent:
            await client.send_all(sent)
        await client.ended.wait()


async def test_a_refusal_in_the_middle_keeps_the_connection():
    class Choosy(Echo):
        async def answer(self, asked, out):
            if asked.path == "/no":
                raise RefusedError(404, b'{"no": 1}', {"X-More": "yes"})
            await super().answer(asked, out)

    async with served(Choosy()) as client:
        await client.send_all(request(target="/no?a=b") + request(body=b"yes"))
        status, headers, body, rest = await read_answer(client)
        assert (status, headers["x-more"], body) == (404, "yes", b'{"no": 1}')
        assert (await read_answer(client, rest=rest))[2] == b"yes"


async def test_a_fault_of_the_service_is_raised():
    class Faulty(Echo):
        async def answer(self, asked, out):
            raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with served(Faulty()) as client:
            await client.send_all(request())
            await client.ended.wait()
