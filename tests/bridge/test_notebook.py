"""A real Jupyter kernel."""

import queue
import time

import pytest
from jupyter_client.manager import KernelManager

from support.scripts import ENVIRONMENT

pytestmark = [
    pytest.mark.slow,
    # jupyter's client loop and its sockets, not ours
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SETUP = """
import threading, trio
from agentcompass.bridge import run_async, run_sync
from agentcompass.progress.events import Notice
MAIN = threading.current_thread()

def engine(cleanup=0.2, work=60, result="done"):
    async def run(control, emit):
        for n in range(3):
            emit(Notice(at=0.0, level="info", text=str(n)))
        print("ready", flush=True)
        with control.soft:
            await trio.sleep(work)
        if control.reason:
            with control.budget.shielded() as scope:
                await trio.sleep(cleanup)
            print("cleaned" if not scope.cancelled_caught else "cut short", flush=True)
        return result
    return run

seen = []
def note(event):
    seen.append((event.text, threading.current_thread() is MAIN))
"""


class Kernel:
    def __init__(self):
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=ENVIRONMENT)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code, *, interrupts=0):
        """Run a cell; interrupt it once it has printed `ready`. Return its output, error name and seconds since."""
        message = self.client.execute(code)
        printed, error, begin = "", None, time.monotonic()
        deadline = begin + 60
        while time.monotonic() < deadline:
            try:
                reply = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if reply["parent_header"].get("msg_id") != message:
                continue
            kind, content = reply["msg_type"], reply["content"]
            if kind == "stream":
                printed += content["text"]
                if "ready" in printed and interrupts:
                    time.sleep(0.3)
                    begin = time.monotonic()
                    for n in range(interrupts):
                        time.sleep(0.5 if n else 0)
                        self.manager.interrupt_kernel()
                    interrupts = 0
            elif kind == "error":
                error = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed.split(), error, time.monotonic() - begin
        raise AssertionError(f"the cell did not end; it printed {printed!r}")

    def close(self):
        """Ask the kernel to end, which it does if nothing of a run holds it."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    try:
        assert kernel.run(SETUP)[1] is None
        yield kernel
    finally:
        kernel.close()


def test_a_synchronous_call_runs_and_its_callbacks_run_in_the_cells_thread(kernel):
    code = "seen.clear(); print(run_sync(engine(work=0.1), grace_seconds=5, on_event=note), seen)"
    printed, error, _ = kernel.run(code)
    assert error is None
    assert " ".join(printed) == "ready done [('0', True), ('1', True), ('2', True)]"


def test_an_awaited_call_runs_and_its_callbacks_run_in_the_cells_thread(kernel):
    code = "seen.clear(); print(await run_async(engine(work=0.1), grace_seconds=5, on_event=note), seen)"
    printed, error, _ = kernel.run(code)
    assert error is None
    assert " ".join(printed) == "ready done [('0', True), ('1', True), ('2', True)]"


def test_an_exception_arrives_in_the_cell_as_itself(kernel):
    _, error, _ = kernel.run(
        "async def broken(control, emit):\n    raise LookupError('x')\nrun_sync(broken, grace_seconds=5)"
    )
    assert error == "LookupError"


@pytest.mark.parametrize(
    "call", ["run_sync(engine(), grace_seconds=20)", "await run_async(engine(), grace_seconds=20)"]
)
def test_the_interrupt_button_ends_a_call_after_its_cleanup(kernel, call):
    printed, error, seconds = kernel.run(call, interrupts=1)
    assert printed == ["ready", "cleaned"]
    assert error in {"KeyboardInterrupt", "CancelledError"}
    assert seconds < 10


def test_a_callback_that_leaves_the_cell_ends_the_run_after_its_cleanup(kernel):
    code = """
def leave(event):
    seen.append(event.text)
    raise KeyboardInterrupt("leave" + event.text)

seen.clear()
try:
    run_sync(engine(), grace_seconds=20, on_event=leave)
except KeyboardInterrupt as error:
    print(error, seen)
"""
    printed, error, _ = kernel.run(code)
    assert error is None
    assert printed == ["ready", "cleaned", "leave0", "['0',", "'1',", "'2']"]


def test_the_second_interrupt_of_a_synchronous_call_ends_its_cleanup(kernel):
    printed, error, seconds = kernel.run(
        "run_sync(engine(cleanup=50), grace_seconds=50)", interrupts=2
    )
    assert printed == ["ready", "cut", "short"]
    assert error == "KeyboardInterrupt"
    assert seconds < 10


def test_the_kernel_lives_on_and_can_be_interrupted_as_before(kernel):
    _, error, _ = kernel.run(
        "import time; print('ready', flush=True); time.sleep(60)", interrupts=1
    )
    assert error == "KeyboardInterrupt"
    assert kernel.run("print(1 + 1)")[0] == ["2"]
