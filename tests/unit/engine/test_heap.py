"""The collector of this process, before, during and after runs."""

import gc
import sys
import threading
import weakref

import pytest

from agentcompass.engine import heap
from support.scripted import run, scripted_request, tasks

BEFORE = (900, 11, 12)


class Knot:
    """Garbage that only the collector finds, once it is let go."""

    def __init__(self):
        self.itself = self


def knot():
    return weakref.ref(Knot())


@pytest.fixture(autouse=True)
def collector():
    """The collector as a host may have it, and as it was before."""
    found = gc.get_threshold()
    gc.unfreeze()
    gc.collect()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*found)
    gc.unfreeze()


def test_while_a_run_lasts_the_young_are_looked_at_less_often():
    with heap.set_aside():
        assert gc.get_threshold() == heap.THRESHOLDS
    assert gc.get_threshold() == BEFORE


def test_a_run_that_fails_leaves_the_collector_as_it_was():
    with pytest.raises(KeyError), heap.set_aside():
        raise KeyError
    assert gc.get_threshold() == BEFORE


def test_what_is_there_when_a_run_begins_is_not_walked_until_it_ends():
    gc.disable()
    try:
        early = knot()
        with heap.set_aside():
            gc.collect()
            assert early() is not None
        gc.collect()
        assert early() is None
    finally:
        gc.enable()


def test_what_a_run_makes_is_collected_as_ever():
    with heap.set_aside():
        late = knot()
        gc.collect()
        assert late() is None


def test_what_a_request_has_loaded_is_set_aside_when_its_work_begins():
    with heap.set_aside():
        walked = len(gc.get_objects())
        loaded = [[number] for number in range(10_000)]
        assert len(gc.get_objects()) > walked + 9_000
        heap.set_loaded_aside()
        assert len(gc.get_objects()) < walked + 1_000
        assert loaded


def test_what_is_set_aside_is_freed_as_soon_as_nobody_has_it():
    big = Knot()
    big.itself = None
    there = weakref.ref(big)
    with heap.set_aside():
        del big
        assert there() is None


@pytest.mark.parametrize("order", ["first in, first out", "first in, last out"])
def test_overlapping_runs_share_one_setting_which_goes_with_the_last(order):
    first, second = heap.set_aside(), heap.set_aside()
    first.__enter__()
    second.__enter__()
    ends = [first, second] if order == "first in, first out" else [second, first]
    ends[0].__exit__(None, None, None)
    assert gc.get_threshold() == heap.THRESHOLDS
    ends[1].__exit__(None, None, None)
    assert gc.get_threshold() == BEFORE


def test_where_there_is_always_a_run_garbage_goes_when_one_of_them_ends():
    gc.disable()
    try:
        with heap.set_aside():
            with heap.set_aside():
                early = knot()
                heap.set_loaded_aside()
                gc.collect()
                assert early() is not None
            gc.collect()
            assert early() is None
    finally:
        gc.enable()


def test_runs_of_many_threads_leave_the_collector_as_it_was():
    together = threading.Barrier(8)

    def work():
        together.wait()
        for _ in range(200):
            with heap.set_aside():
                heap.set_loaded_aside()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert gc.get_threshold() == BEFORE


def test_who_collects_by_hand_goes_on_doing_so():
    gc.set_threshold(0)
    with heap.set_aside():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0


def test_a_setting_that_somebody_makes_during_a_run_is_kept():
    with heap.set_aside():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


async def test_an_evaluation_uses_it_and_leaves_nothing_set_aside(tmp_path):
    seen, loaded = [], []

    def load():
        seen.append((gc.get_threshold(), gc.get_freeze_count()))
        loaded.extend([number] for number in range(100_000))  # more than others let go meanwhile
        return tasks(3)

    def evaluate(*_args):
        seen.append((gc.get_threshold(), gc.get_freeze_count()))
        raise RuntimeError

    before = gc.get_freeze_count()
    ran = await run(tmp_path, scripted_request({"load": load, "evaluate": evaluate}))
    assert ran.result.status == "failed"
    assert {thresholds for thresholds, _count in seen} == {heap.THRESHOLDS}
    (_, at_load), (_, at_work), *_ = seen
    assert 0 < at_load < at_work
    assert (gc.get_threshold(), gc.get_freeze_count()) == (BEFORE, before)
