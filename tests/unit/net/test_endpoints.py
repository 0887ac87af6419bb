"""The limiters of one run, kept in step with other runs on this machine."""

import contextlib
import itertools
import logging
import math
import threading

import pytest
import trio

from agentcompass.net.board import BoardError
from agentcompass.net.endpoint_limits import Limits
from agentcompass.net.endpoints import Endpoints

SERVER = "https://api.example.com"


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch):
    """Look at the board more often than usual: nothing here depends on how often."""
    for name, seconds in (
        ("_IDLE_SECONDS", 0.1),
        ("_ALONE_SECONDS", 0.1),
        ("_CALM_SECONDS", 0.1),
        ("_BUSY_SECONDS", 0.05),
        ("_URGENT_SECONDS", 0.01),
    ):
        monkeypatch.setattr(f"agentcompass.net.endpoints.{name}", seconds)


@contextlib.asynccontextmanager
async def running(*boards):
    """Several runs at work, each with a limiter of one endpoint and key."""
    async with trio.open_nursery() as nursery:
        runs = [Endpoints(board) for board in boards]
        for run in runs:
            nursery.start_soon(run.keep_in_step)
        await trio.testing.wait_all_tasks_blocked()
        yield [run.limiter(SERVER, "key", Limits(cap=64)) for run in runs]
        nursery.cancel_scope.cancel()


async def until(statement):
    with trio.fail_after(10):
        while not statement():
            await trio.sleep(0.01)


async def hold_place(limiter, *, task_status):
    async with limiter.place() as place:
        task_status.started(place)
        await trio.sleep_forever()


def test_all_users_of_an_endpoint_and_key_have_one_limiter_with_the_narrowest_limits():
    endpoints = Endpoints()
    one = endpoints.limiter(SERVER, "key", Limits(cap=64, rpm=600))
    assert endpoints.limiter(SERVER, "other", Limits(cap=9)) is not one
    assert endpoints.limiter("https://api.example.org", "key", Limits(cap=9)) is not one


async def test_further_users_narrow_the_limits():
    endpoints = Endpoints()
    one = endpoints.limiter(SERVER, "key", Limits(cap=64, rpm=600))
    assert endpoints.limiter(SERVER, "key", Limits(cap=8)) is one
    assert one.limits == Limits(cap=8, rpm=600)


async def test_what_one_run_finds_out_another_knows(tmp_path):
    async with running(*[lambda: tmp_path] * 2) as (one, other), trio.open_nursery() as nursery:
        places = [await nursery.start(hold_place, one) for _ in range(16)]
        places[0].refused(0.0)
        assert one.limit == 12
        await until(lambda: other.use.others == 1 and other.limit <= 12)
        for _ in range(12):
            nursery.start_soon(lambda: nursery.start(hold_place, other))
        await until(lambda: other.waiting == 11)
        assert other.use.binds == "others"
        await until(lambda: one.limit == 6)
        nursery.cancel_scope.cancel()


async def test_a_pause_of_one_run_holds_another(tmp_path):
    async with running(*[lambda: tmp_path] * 2) as (one, other):
        await until(lambda: one.use.others == other.use.others == 1)
        async with one.place() as place:
            place.refused(300.0)
        await until(lambda: other.pause_seconds > 290)
        assert abs(one.pause_seconds - other.pause_seconds) < 1


async def test_when_a_run_ends_its_share_comes_back_and_nothing_is_left(tmp_path):
    async with running(*[lambda: tmp_path] * 2) as (one, _):
        await until(lambda: one.use.others == 1)
        async with running(lambda: tmp_path) as (third,):
            await until(lambda: one.use.others == third.use.others == 2)
        await until(lambda: one.use.others == 1)
    assert list(tmp_path.iterdir()) == []


async def test_who_does_not_want_to_share_is_neither_seen_nor_sees(tmp_path):
    async with running(lambda: tmp_path) as (one,), trio.open_nursery() as nursery:
        alone = Endpoints(lambda: tmp_path)
        nursery.start_soon(alone.keep_in_step)
        limiter = alone.limiter(SERVER, "key", Limits(cap=4), is_shared=False)
        async with limiter.place():
            await trio.sleep(0.2)
            assert len(list(tmp_path.iterdir())) == 1
            assert one.use.others == limiter.use.others == 0
        nursery.cancel_scope.cancel()


async def test_without_a_board_each_run_has_its_own_limits_and_says_so_once(caplog):
    def none():
        raise BoardError("/run/user/0: Read-only file system")

    with caplog.at_level(logging.WARNING, "agentcompass.net"):
        async with running(none) as (one,):
            for _ in range(3):
                async with one.place() as place:
                    place.succeeded()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "not shared with other runs on this machine" in said[0]
    assert "/run/user/0: Read-only file system" in said[0]


async def test_a_board_that_fails_later_is_left(tmp_path, caplog):
    directory = tmp_path / "board"
    directory.mkdir()
    async with running(lambda: directory) as (one,):
        async with one.place():
            pass
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        await until(lambda: caplog.records)
        async with one.place():
            pass
    assert "No such file" in caplog.text


async def test_a_board_that_hangs_holds_nobody_up_for_ever(monkeypatch, caplog):
    monkeypatch.setattr("agentcompass.net.endpoints._HUNG_SECONDS", 0.05)
    monkeypatch.setattr("agentcompass.net.endpoints._LEAVE_SECONDS", 0.05)
    released = threading.Event()

    def hangs():
        released.wait()
        raise BoardError("too late")

    try:
        async with running(hangs) as (one,):
            async with one.place():
                pass
            await until(lambda: caplog.records)
    finally:
        released.set()
    assert "does not answer" in caplog.text


async def test_the_first_call_waits_until_it_is_known_what_others_do(tmp_path):
    async with running(lambda: tmp_path) as (one,), trio.open_nursery() as nursery:
        places = [await nursery.start(hold_place, one) for _ in range(4)]
        places[0].refused(0.0)
        await trio.sleep(0.3)
        late = Endpoints(lambda: tmp_path)
        nursery.start_soon(late.keep_in_step)
        await trio.testing.wait_all_tasks_blocked()
        limiter = late.limiter(SERVER, "key", Limits(cap=64))
        async with limiter.place():
            assert limiter.limit <= 2
        nursery.cancel_scope.cancel()


async def test_it_tells_only_of_endpoints_at_which_calls_wait():
    endpoints = Endpoints()
    first = endpoints.limiter(SERVER, "key", Limits(cap=1, rpm=600))
    second = endpoints.limiter(SERVER, "other", Limits(cap=2))
    endpoints.limiter("http://127.0.0.1:8000", "", Limits(cap=2))
    assert endpoints.binding() == {}
    async with trio.open_nursery() as nursery:
        await nursery.start(hold_place, first)
        nursery.start_soon(lambda: nursery.start(hold_place, first))
        await trio.testing.wait_all_tasks_blocked()
        second.pause(7.5)
        told = endpoints.binding()
        nursery.cancel_scope.cancel()
    assert told == {
        "api.example.com": {
            "in_use": 1, "limit": 1, "cap": 1, "rpm": 600, "tpm": None, "waiting": 1, "binds": "limit",
            "pause_seconds": 0, "others": 0,
        },
        "api.example.com (2)": {
            "in_use": 0, "limit": 2, "cap": 2, "rpm": None, "tpm": None, "waiting": 0, "binds": None,
            "pause_seconds": 8, "others": 0,
        },
    }  # fmt: skip


async def test_several_runs_together_send_no_more_than_one_may(tmp_path):
    counts = [0, 0, 0]

    async def work(at, limiter):
        limiter.narrow(Limits(cap=64, rpm=600))
        while True:
            async with limiter.place() as place:
                counts[at] += 1
                await trio.sleep(0.01)
                place.succeeded()

    async with running(*[lambda: tmp_path] * 3) as limiters, trio.open_nursery() as nursery:
        await until(lambda: all(limiter.use.others == 2 for limiter in limiters))
        for at, limiter in enumerate(limiters):
            nursery.start_soon(work, at, limiter)
        await trio.sleep(0.5)
        before, since = list(counts), trio.current_time()
        await trio.sleep(1)
        seconds = trio.current_time() - since
        nursery.cancel_scope.cancel()
    made = [now - then for now, then in zip(counts, before, strict=True)]
    assert sum(made) <= 10 * seconds + 4
    assert math.isclose(max(made), min(made), abs_tol=4)


async def test_runs_one_after_the_other_send_no_more_than_one_may(tmp_path):
    sent = []
    for _ in range(3):
        async with running(lambda: tmp_path) as (limiter,):
            limiter.narrow(Limits(cap=64, rpm=120))
            for _ in range(2):
                async with limiter.place():
                    sent.append(trio.current_time())
    gaps = [after - before for before, after in itertools.pairwise(sent)]
    assert min(gaps) > 0.49  # one each half second


async def test_limiters_that_were_made_before_wait_for_word_of_the_others_too(tmp_path):
    endpoints = Endpoints(lambda: tmp_path)
    limiter = endpoints.limiter(SERVER, "key", Limits(cap=4))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(endpoints.keep_in_step)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert limiter.use.binds is None
        async with limiter.place():
            assert len(list(tmp_path.iterdir())) == 1
        nursery.cancel_scope.cancel()


async def test_one_user_who_does_not_want_to_share_is_enough(tmp_path):
    async with running(lambda: tmp_path) as (one,), trio.open_nursery() as nursery:
        other = Endpoints(lambda: tmp_path)
        nursery.start_soon(other.keep_in_step)
        limiter = other.limiter(SERVER, "key", Limits(cap=4))
        await until(lambda: one.use.others == limiter.use.others == 1)
        other.limiter(SERVER, "key", Limits(cap=4), is_shared=False)
        await until(lambda: one.use.others == limiter.use.others == 0)
        assert len(list(tmp_path.iterdir())) == 1
        async with limiter.place():
            pass
        nursery.cancel_scope.cancel()


async def test_a_limiter_that_is_made_while_sharing_fails_is_not_held_for_ever():
    entered, released = trio.Event(), threading.Event()

    def fails():
        trio.from_thread.run_sync(entered.set)
        released.wait()
        raise BoardError("no")

    async with running(fails), trio.open_nursery() as nursery:
        endpoints = Endpoints(fails)
        nursery.start_soon(endpoints.keep_in_step)
        await trio.testing.wait_all_tasks_blocked()
        endpoints.limiter(SERVER, "key", Limits(cap=4))
        await entered.wait()
        late = endpoints.limiter(SERVER, "another", Limits(cap=4))
        released.set()
        with trio.fail_after(10):
            async with late.place():
                pass
        nursery.cancel_scope.cancel()
