"""What holds under every host: the matrix of hosts and behaviours."""

import asyncio
import contextlib
import threading
import time

import pytest
import trio

from agentcompass.bridge import run_async
from support.hosting import ASYNC_HOSTS, HOSTS, WHO, Engine, call_from, notice, run_app

every_host = pytest.mark.parametrize("host", HOSTS)
every_async_host = pytest.mark.parametrize("host", ASYNC_HOSTS)


@every_host
def test_the_engines_result_arrives(host):
    async def engine(control, emit):
        await trio.sleep(0.01)
        return {"answer": 42}

    assert call_from(host, engine) == {"answer": 42}


@every_host
def test_an_exception_arrives_as_itself_without_groups_around_it(host):
    class Odd(Exception):
        pass

    error = Odd("as it was raised")

    async def engine(control, emit):
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep, 5)

            async def fail():
                raise error

            inner.start_soon(fail)

    with pytest.raises(Odd) as caught:
        call_from(host, engine)
    assert caught.value is error


@every_host
def test_several_exceptions_stay_a_group(host):
    async def engine(control, emit):
        async with trio.open_nursery() as nursery:
            for error in (ValueError("a"), OSError("b")):

                async def fail(error=error):
                    raise error

                nursery.start_soon(fail)

    with pytest.RaisesGroup(ValueError, OSError):
        call_from(host, engine)


@every_host
def test_the_engine_sees_the_callers_context_variables(host):
    async def engine(control, emit):
        async with trio.open_nursery() as nursery:
            seen = []

            async def look():
                seen.append(WHO.get())

            nursery.start_soon(look)
        return seen[0]

    assert call_from(host, engine) == "the caller"


@every_host
def test_callbacks_run_in_the_callers_thread_and_context_in_order_and_all_before_the_return(host):
    async def engine(control, emit):
        for n in range(200):
            emit(notice(str(n)))
            if n % 50 == 0:
                await trio.sleep(0.001)
        emit(notice("last"))

    seen = []

    def on_event(event):
        seen.append((event.text, threading.current_thread(), WHO.get()))

    call_from(host, engine, on_event=on_event)
    assert [text for text, _, _ in seen] == [*map(str, range(200)), "last"]
    assert {(thread, who) for _, thread, who in seen} == {
        (threading.current_thread(), "the caller")
    }


@every_host
def test_a_failing_callback_is_logged_and_the_run_goes_on(host, caplog):
    async def engine(control, emit):
        for n in range(3):
            emit(notice(str(n)))
        return "finished"

    calls = []

    def on_event(event):
        calls.append(event)
        raise ZeroDivisionError("the application's own bug")

    assert call_from(host, engine, on_event=on_event) == "finished"
    assert len(calls) == 3
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.name for record in errors] == ["agentcompass"]
    assert "the application's own bug" in errors[0].exc_text


@pytest.mark.parametrize("host", ["sync", "trio", "trio-asyncio"])
def test_an_exit_from_a_callback_ends_the_run_after_its_cleanup(host):
    engine = Engine()

    def on_event(event):
        raise SystemExit(7)

    with pytest.raises(SystemExit) as caught:
        call_from(host, engine, on_event=on_event)
    assert caught.value.code == 7
    assert engine.is_cleaned
    assert engine.control.reason == "caller"


async def _aio_cancel_one(first, second):
    started = asyncio.Event()
    one = asyncio.ensure_future(
        run_async(first, grace_seconds=5, on_event=lambda _event: started.set())
    )
    other = asyncio.ensure_future(run_async(second, grace_seconds=5))
    await started.wait()
    one.cancel()
    return await asyncio.gather(one, other, return_exceptions=True)


async def _trio_cancel_one(first, second):
    results = [None, None]
    started = trio.Event()
    scope = trio.CancelScope()

    async def one():
        with scope:
            results[0] = await run_async(
                first, grace_seconds=5, on_event=lambda _event: started.set()
            )

    async def other():
        results[1] = await run_async(second, grace_seconds=5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(other)
        await started.wait()
        scope.cancel()
    if scope.cancelled_caught:
        results[0] = asyncio.CancelledError()
    return results


@every_async_host
def test_cancelling_one_of_two_ends_that_one_after_its_cleanup_and_leaves_the_other_alone(host):
    first, second = Engine("first"), Engine("second", work_seconds=0.6)

    async def app():
        scenario = _trio_cancel_one if host == "trio" else _aio_cancel_one
        return await scenario(first, second)

    one, other = run_app(host, app)
    assert isinstance(one, asyncio.CancelledError)
    assert first.is_cleaned
    assert first.control.reason == "caller"
    assert other == "second ended by None"


@pytest.mark.parametrize("host", [host for host in ASYNC_HOSTS if host != "trio"])
def test_a_second_cancellation_ends_the_cleanup_at_once(host):
    engine = Engine(cleanup_seconds=20)

    async def app():
        started = asyncio.Event()
        task = asyncio.ensure_future(
            run_async(engine, grace_seconds=20, on_event=lambda _event: started.set())
        )
        await started.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.25)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return task.cancelled()

    begin = time.monotonic()
    assert run_app(host, app)
    assert time.monotonic() - begin < 5
    assert engine.is_cut_short


@pytest.mark.parametrize("host", [host for host in ASYNC_HOSTS if host != "trio"])
def test_a_time_limit_of_asyncio_raises_timeout_after_the_cleanup(host):
    engine = Engine()

    async def app():
        async with asyncio.timeout(0.2):
            await run_async(engine, grace_seconds=5)

    with pytest.raises(TimeoutError):
        run_app(host, app)
    assert engine.is_cleaned


@pytest.mark.parametrize("host", [host for host in ASYNC_HOSTS if host != "trio"])
def test_a_failing_sibling_in_a_task_group_cancels_after_the_cleanup(host):
    engine = Engine()

    async def app():
        started = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_async(engine, grace_seconds=5, on_event=lambda _event: started.set())
            )
            await started.wait()
            raise LookupError("sibling")

    with pytest.RaisesGroup(LookupError):
        run_app(host, app)
    assert engine.is_cleaned


@every_async_host
def test_cleanup_that_is_stuck_is_bounded_by_the_grace(host):
    engine = Engine(cleanup_seconds=60)

    async def aio_app():
        async with asyncio.timeout(0.1):
            await run_async(engine, grace_seconds=0.3)

    async def trio_app():
        with trio.fail_after(0.1):
            await run_async(engine, grace_seconds=0.3)

    begin = time.monotonic()
    with pytest.raises((TimeoutError, trio.TooSlowError)):
        run_app(host, trio_app if host == "trio" else aio_app)
    assert time.monotonic() - begin < 5
    assert engine.is_cut_short


@every_async_host
def test_an_engine_that_fails_while_it_is_cancelled_is_the_cause_of_the_cancellation(host):
    error = OSError("disk full")

    async def engine(control, emit):
        with control.soft:
            await trio.sleep(30)
        raise error

    causes = []

    async def aio_app():
        task = asyncio.ensure_future(run_async(engine, grace_seconds=5))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as cancelled:
            causes.append(cancelled.__cause__)

    async def trio_app():
        with trio.move_on_after(0.1):
            try:
                await run_async(engine, grace_seconds=5)
            except trio.Cancelled as cancelled:
                causes.append(cancelled.__cause__)
                raise

    run_app(host, trio_app if host == "trio" else aio_app)
    assert causes == [error]


@every_async_host
def test_what_the_engine_does_after_its_cancelled_work_is_not_cut_off(host):
    written = []

    async def engine(control, emit):
        with control.soft:
            await trio.sleep(30)
        await trio.sleep(0.05)
        written.append("summary")

    async def aio_app():
        async with asyncio.timeout(0.1):
            await run_async(engine, grace_seconds=5)

    async def trio_app():
        with trio.fail_after(0.1):
            await run_async(engine, grace_seconds=5)

    with pytest.raises((TimeoutError, trio.TooSlowError)):
        run_app(host, trio_app if host == "trio" else aio_app)
    assert written == ["summary"]


@every_async_host
def test_a_caller_that_is_cancelled_before_it_begins_runs_nothing_for_long(host):
    engine = Engine()

    async def aio_app():
        task = asyncio.ensure_future(run_async(engine, grace_seconds=5))
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def trio_app():
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_async(engine, grace_seconds=5)
        return scope.cancelled_caught

    begin = time.monotonic()
    assert run_app(host, trio_app if host == "trio" else aio_app)
    assert time.monotonic() - begin < 5
