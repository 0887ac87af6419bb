"""Importing trio-asyncio does not change what loops the rest of the process gets."""

from support.scripts import run_script

HEAD = """
import asyncio, threading, warnings
warnings.simplefilter("error")
from agentcompass.bridge import import_trio_asyncio
print("ready", flush=True)

async def kind():
    return type(asyncio.get_running_loop()).__name__
"""


def _lines(body):
    ended = run_script(HEAD + body)
    assert ended.returncode == 0, ended.stderr
    return ended.lines[1:]


def test_asyncio_run_keeps_its_loop_in_every_thread():
    assert _lines(
        """
before = asyncio.run(kind())
import_trio_asyncio()
assert asyncio.run(kind()) == before
seen = []
thread = threading.Thread(target=lambda: seen.append(asyncio.run(kind())))
thread.start(); thread.join()
assert seen == [before]
print("kept")
"""
    ) == ["kept"]


def test_the_loops_of_trio_asyncio_still_work_after_it():
    assert _lines(
        """
trio_asyncio = import_trio_asyncio()
async def nap():
    await asyncio.sleep(0.01)
    return await kind()
print(trio_asyncio.run(trio_asyncio.aio_as_trio(nap)))
"""
    ) == ["TrioEventLoop"]


def test_a_second_call_gives_the_same_module():
    assert _lines("print(import_trio_asyncio() is import_trio_asyncio())") == ["True"]


def test_a_process_that_imported_it_plainly_keeps_the_loops_it_chose():
    assert _lines(
        """
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import trio_asyncio
import_trio_asyncio()
print(asyncio.run(kind()))
"""
    ) == ["SyncTrioEventLoop"]
