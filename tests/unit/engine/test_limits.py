"""The rate at which sandboxes are opened."""

import trio

from agentcompass.engine.limits import Limits, TokenBucket


async def test_a_thousand_starts_at_two_a_second_take_499_and_a_half(autojump_clock):
    bucket = TokenBucket(2.0)
    began = trio.current_time()
    for _ in range(1000):
        await bucket.take()
    assert round(trio.current_time() - began, 3) == 499.5


async def test_an_idle_bucket_saves_up_no_burst(autojump_clock):
    bucket = TokenBucket(1.0)
    await bucket.take()
    await trio.sleep(100)
    began = trio.current_time()
    for _ in range(3):
        await bucket.take()
    assert round(trio.current_time() - began, 3) == 2


async def test_a_cancelled_waiter_uses_no_token_up(autojump_clock):
    bucket = TokenBucket(0.1)
    await bucket.take()
    for _ in range(5):
        with trio.move_on_after(1):
            await bucket.take()
    await bucket.take()
    assert round(trio.current_time(), 3) == 10


async def test_waiters_are_served_in_order(autojump_clock):
    bucket, served = TokenBucket(1.0), []

    async def wait(number):
        await bucket.take()
        served.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
    assert served == list(range(10))


async def test_a_rate_of_zero_is_no_limit():
    limits = Limits.create({"docker": 0.0, "host_process": 2.0}, 4)
    assert set(limits.open_rates) == {"host_process"}
