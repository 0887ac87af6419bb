"""Components that are plain functions run in a thread, and reach session and model from there."""

import functools
import threading

import httpx
import pytest
import trio

from agentcompass.engine.foreign import call
from agentcompass.errors import ModelError
from agentcompass.testing import FakeEndpoint, chat, error
from support.components import open_session
from support.gateways import Door
from support.opened import Opened
from support.scripted import MemorySession


class Model:
    """What an attempt gets, as far as a plain function sees it."""

    id = "m1"

    def __init__(self):
        self.revoked_in = None

    async def chat(self, text, *, times=1):
        """Answer."""
        await trio.sleep(0)
        return text * times, threading.current_thread()

    def revoke(self):
        self.revoked_in = threading.current_thread()


async def called(function, *args):
    return await call(function, *args, threads=trio.CapacityLimiter(1))


async def test_an_async_function_runs_in_the_run_itself():
    async def method(model):
        return model, threading.current_thread()

    model = Model()
    assert await called(method, model) == (model, threading.current_thread())


async def test_a_plain_function_runs_in_a_thread_and_calls_async_methods_as_plain_ones():
    here = threading.current_thread()

    def method(model, session, solve):
        session.write_bytes("a", b"data")
        return (
            threading.current_thread(),
            model.id,
            model.chat("ab", times=2),
            model.chat.__doc__,
            session.read_bytes("a"),
            solve(),
        )

    async def solve():
        return "solved"

    thread, *rest = await called(method, Model(), MemorySession(None, None), solve)
    assert thread is not here
    assert rest == ["m1", ("abab", here), "Answer.", b"data", "solved"]


async def test_what_is_no_async_method_is_called_where_it_is():
    model = Model()
    await called(lambda lent: lent.revoke(), model)
    assert model.revoked_in is not threading.current_thread()


async def test_a_plain_function_that_hands_out_a_coroutine_is_an_error_that_says_how_to_write_it():
    async def real():
        raise AssertionError("nobody awaits it")

    def decorated():
        return real()

    with pytest.raises(TypeError, match=r"decorated is no async function .* use functools.wraps"):
        await called(decorated)


async def test_an_async_function_behind_a_decorator_that_wraps_it_is_async():
    async def real():
        return threading.current_thread()

    @functools.wraps(real)
    def decorated():
        return real()

    assert await called(decorated) is threading.current_thread()


# --- context managers


def ask(gateway):
    """As a program does, or a library that takes a base URL and a key."""
    headers = {"Authorization": f"Bearer {gateway.key}"}
    url = f"{gateway.url}/v1/chat/completions"
    reply = httpx.post(url, headers=headers, json={}, timeout=20, trust_env=False)
    return reply.raise_for_status().json()


async def served(endpoint, agent, **options):
    """What a plain function gives that is lent a model and a sandbox to serve it in."""
    async with Opened(endpoint, **options) as opened:
        return await called(agent, opened.model, Door())


async def test_a_plain_function_serves_the_model_and_is_told_of_its_calls():
    told = []

    def agent(model, session):
        def take(one):
            told.append((one.reply.message.text, threading.current_thread()))

        with model.serve(session, on_call=take) as gateway:
            answer = ask(gateway)
        with pytest.raises(httpx.ConnectError):
            ask(gateway)
        return answer["choices"][0]["message"]["content"]

    with FakeEndpoint(chat("yes")) as endpoint:
        assert await served(endpoint, agent) == "yes"
    ((text, thread),) = told
    assert text == "yes"
    assert thread is not threading.current_thread()


async def test_a_failure_for_good_comes_out_of_the_block_instead_of_what_it_caused():
    def agent(model, session):
        with model.serve(session) as gateway:
            ask(gateway)

    with (
        FakeEndpoint(error(401, "bad key")) as endpoint,
        pytest.raises(ModelError, match="bad key"),
    ):
        await served(endpoint, agent)


async def test_the_end_of_the_calls_ends_the_block():
    def agent(model, session):
        with model.serve(session, max_calls=1) as gateway:
            while True:
                ask(gateway)
        return gateway.is_exhausted

    with FakeEndpoint(chat()) as endpoint:
        assert await served(endpoint, agent) is True


async def test_an_error_of_the_block_comes_out_as_itself():
    def agent(model, session):
        with model.serve(session):
            raise ZeroDivisionError

    with FakeEndpoint(chat()) as endpoint, pytest.raises(ZeroDivisionError):
        await served(endpoint, agent)


async def test_nothing_stays_open_that_a_plain_function_leaves_open():
    def agent(model, session):
        gateway = model.serve(session).__enter__()
        assert ask(gateway)
        return gateway

    with FakeEndpoint(chat()) as endpoint:
        gateway = await served(endpoint, agent)
        with pytest.raises(httpx.ConnectError):
            await trio.to_thread.run_sync(ask, gateway)


async def test_a_cancelled_call_closes_what_its_thread_has_open():
    inside, release = threading.Event(), threading.Event()
    gateways = []

    def agent(model, session):
        with model.serve(session) as gateway:
            gateways.append(gateway)
            inside.set()
            release.wait(60)

    with FakeEndpoint(chat()) as endpoint:
        with trio.CancelScope() as attempt:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(served, endpoint, agent)
                await trio.to_thread.run_sync(inside.wait, 60)
                attempt.cancel()
        with pytest.raises(httpx.ConnectError):
            await trio.to_thread.run_sync(ask, gateways[0])
    release.set()


async def test_a_plain_function_talks_to_a_program_in_the_sandbox(tmp_path):
    def method(session):
        with session.process(["sh", "-c", "read line; echo got $line; exit 3"]) as program:
            program.send(b"this\n")
            return program.receive(), program.wait()

    async with open_session(tmp_path) as session:
        assert await called(method, session) == (b"got this\n", 3)
