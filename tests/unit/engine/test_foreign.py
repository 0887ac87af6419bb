"""Components that are plain functions run in a thread, and reach session and model from there."""

import functools
import threading

import pytest
import trio

from agentcompass.engine.foreign import call
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
