import threading
import time
from contextvars import ContextVar

import pytest

from agentcompass.errors import StoreError
from agentcompass.store.writer import MAX_BATCH_BYTES, Job, Writer
from support.storage import waited


class Recorder:
    """A target that notes what happens to it."""

    def __init__(self, error=None):
        self.happened = []
        self.error = error

    def write(self, name):
        self.happened.append(name)
        return self

    def commit(self):
        self.happened.append("commit")
        if self.error:
            raise self.error


@pytest.fixture
def writer():
    one = Writer()
    yield one
    assert one.close(10)


def test_everything_queued_is_written_before_one_commit_and_told_after_it(writer):
    target = Recorder()
    for name in "abc":
        writer.submit(
            Job(
                write=lambda name=name: target.write(name),
                done=lambda error, name=name: target.happened.append(f"done {name} {error}"),
            )
        )
    writer.start()
    assert writer.close(10)
    assert target.happened == ["a", "b", "c", "commit", "done a None", "done b None", "done c None"]


def test_each_file_of_a_batch_is_committed_once(writer):
    one, other = Recorder(), Recorder()
    for target in (one, other, one, other):
        writer.submit(Job(write=lambda target=target: target.write("x")))
    writer.start()
    assert writer.close(10)
    assert one.happened == other.happened == ["x", "x", "commit"]


def test_a_failed_commit_fails_exactly_the_jobs_of_that_file(writer):
    bad, good = Recorder(StoreError("disk full")), Recorder()
    told = []
    for target in (bad, good):
        writer.submit(Job(write=lambda target=target: target.write("x"), done=told.append))
    writer.start()
    assert writer.close(10)
    assert [str(error) for error in told] == ["disk full", "None"]


def test_a_job_that_raises_anything_fails_alone(writer):
    writer.start()

    def boom():
        raise KeyError("odd")

    error = waited(lambda done: writer.submit(Job(write=boom, done=done)))
    assert "KeyError" in str(error)
    assert waited(lambda done: writer.submit(Job(write=lambda: None, done=done))) is None


def test_a_commit_that_raises_anything_fails_its_jobs_and_stops_nobody(writer):
    writer.start()
    target = Recorder(MemoryError("no room"))
    error = waited(lambda done: writer.submit(Job(write=lambda: target.write("x"), done=done)))
    assert str(error) == "could not be written: MemoryError: no room"
    assert waited(lambda done: writer.submit(Job(write=lambda: None, done=done))) is None


def test_a_callback_that_raises_stops_nobody(writer, caplog):
    writer.start()

    def boom(_error):
        raise RuntimeError("listener")

    writer.submit(Job(write=lambda: None, done=boom))
    assert waited(lambda done: writer.submit(Job(write=lambda: None, done=done))) is None
    assert "callback" in caplog.text


def test_what_is_pending_is_counted_until_it_is_told(writer):
    seen = []
    writer.submit(
        Job(
            write=lambda: seen.append(writer.pending_bytes),
            done=lambda _: seen.append(writer.pending),
            size=7,
        )
    )
    assert (writer.pending, writer.pending_bytes) == (1, 7)
    writer.start()
    assert writer.close(10)
    assert seen == [7, 0]
    assert writer.pending_bytes == 0


def test_a_long_queue_is_told_step_by_step(writer):
    target = Recorder()
    for _ in range(3):
        writer.submit(Job(write=lambda: target.write("x"), size=MAX_BATCH_BYTES))
    writer.start()
    assert writer.close(10)
    assert target.happened == ["x", "commit"] * 3


def test_after_close_a_job_fails_at_once(writer):
    writer.start()
    assert writer.close(10)
    told = []
    writer.submit(Job(write=lambda: None, done=told.append))
    assert isinstance(told[0], StoreError)


def test_close_gives_up_on_a_disk_that_hangs_and_can_be_asked_again(writer):
    hangs = threading.Event()
    writer.start()
    writer.submit(Job(write=lambda: hangs.wait(20) and None))
    start = time.monotonic()
    assert not writer.close(0.05)
    assert not writer.is_finished
    assert time.monotonic() - start < 5
    hangs.set()
    assert writer.close(10)
    assert writer.is_finished


def test_a_writer_that_never_started_says_that_its_queue_is_not_done():
    one = Writer()
    one.submit(Job(write=lambda: None))
    assert not one.close(0.01)
    assert Writer().close(0.01)


def test_many_threads_may_submit_at_once(writer):
    target, told = Recorder(), []
    writer.start()

    def submit():
        for _ in range(200):
            writer.submit(Job(write=lambda: target.write("x"), done=told.append))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.close(10)
    assert told == [None] * 800
    assert target.happened.count("x") == 800


def test_the_thread_is_of_the_run_that_started_it(writer):
    whose = ContextVar("whose", default="nobody's")
    whose.set("mine")
    writer.start()
    seen = []
    waited(lambda done: writer.submit(Job(write=lambda: seen.append(whose.get()), done=done)))
    assert seen == ["mine"]
