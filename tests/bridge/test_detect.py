"""Who runs the calling code."""

import asyncio
import contextlib
import sys
import types

import pytest
import trio

from agentcompass.bridge import import_trio_asyncio
from agentcompass.bridge.detect import current_host, in_notebook
from support.hosting import run_app


async def _ask():
    return current_host()


def test_plain_code_has_no_host():
    assert current_host() == "none"


@pytest.mark.parametrize(
    ("program", "host"),
    [
        ("trio", "trio"),
        ("asyncio", "asyncio"),
        ("uvloop", "asyncio"),
        ("trio-asyncio", "trio-asyncio"),
        ("trio-asyncio-sync", "trio-asyncio"),
    ],
)
def test_each_kind_of_program_is_told_apart(program, host):
    assert run_app(program, _ask) == host


def test_trio_code_with_a_trio_asyncio_loop_around_it_is_trio():
    async def app():
        async with import_trio_asyncio().open_loop():
            return current_host()

    assert trio.run(app) == "trio"


def test_trio_code_called_from_asyncio_code_on_trio_asyncio_is_trio():
    async def app():
        return await import_trio_asyncio().trio_as_aio(_ask)()

    assert run_app("trio-asyncio", app) == "trio"


@pytest.mark.parametrize("program", ["asyncio", "trio-asyncio"])
def test_a_callback_of_a_loop_counts_as_the_loop(program):
    async def app():
        answer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: answer.set_result(current_host()))
        return await answer

    assert run_app(program, app) == program


@pytest.mark.parametrize("program", ["asyncio", "trio-asyncio"])
def test_a_worker_thread_has_no_host_though_it_inherits_context_variables(program):
    async def app():
        if program == "asyncio":
            return await asyncio.to_thread(current_host)
        return await import_trio_asyncio().trio_as_aio(trio.to_thread.run_sync)(current_host)

    assert run_app(program, app) == "none"


def test_asyncio_beside_a_guest_run_of_trio_is_asyncio():
    async def guest():
        await trio.sleep(0.1)

    async def app():
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        trio.lowlevel.start_guest_run(
            guest,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=lambda _outcome: over.set(),
        )
        await asyncio.sleep(0.02)
        host = current_host()
        await over.wait()
        return host

    assert asyncio.run(app()) == "asyncio"


def test_a_notebook_is_told_by_its_kernel(monkeypatch):
    shell = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert not in_notebook()  # IPython in a terminal
    shell.kernel = object()
    assert in_notebook()


def test_without_ipython_there_is_no_notebook(monkeypatch):
    with contextlib.suppress(KeyError):
        monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()
