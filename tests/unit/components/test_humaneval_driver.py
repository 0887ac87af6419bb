"""The driver alone, as the sandbox runs it: its text, a job on its input, a verdict on its output."""

import json
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs
import pytest

from agentcompass.components.benchmarks import humaneval_driver as driver

TEXT = Path(driver.__file__).read_text()
TOKEN = "0123456789abcdef"


@attrs.frozen
class Ended:
    returncode: int
    stdout: str
    stderr: str

    @property
    def verdict(self):
        """What the driver says with the token, else None."""
        first, _, rest = self.stdout.partition("\n")
        assert first.startswith("ready 3.")
        said = [line.removeprefix(f"{TOKEN} ") for line in rest.splitlines() if TOKEN in line]
        return said[0] if len(said) == 1 else None


def drive(program, *, before="", timeout_seconds=30.0, memory_mb=1024, token_after=None):
    """Run a program under the driver.

    Args:
        program: Its source.
        before: Python code that is run in the process before the driver takes its place.
        timeout_seconds: For the program.
        memory_mb: For the program.
        token_after: Called before the token is sent; None sends all at once.
    """
    job = json.dumps(
        {
            "sources": [("solution", textwrap.dedent(program))],
            "timeout_seconds": timeout_seconds,
            "memory_mb": memory_mb,
        }
    )
    start = f"import os, sys\n{before}\nos.execv(sys.executable, [sys.executable, '-I', '-B', '-c', sys.argv[1]])"
    with subprocess.Popen(
        [sys.executable, "-c", start, TEXT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        child.stdin.write(f"{len(job)}\n{job}")
        child.stdin.flush()
        if token_after is not None:
            token_after(child)
        out, err = child.communicate(f"{TOKEN}\n", timeout=60)
    return Ended(child.returncode, out, err)


def test_a_program_that_comes_to_its_end_passes():
    ended = drive("assert __name__ == 'solution'")
    assert (ended.verdict, ended.returncode) == ("passed", 0)


def test_what_a_program_prints_or_writes_to_its_output_is_no_verdict():
    ended = drive(
        f"""
        import os
        print("{TOKEN} passed", flush=True)
        os.write(1, b"{TOKEN} passed")
        assert False
        """
    )
    assert ended.verdict == "failed: AssertionError:"
    assert ended.stderr == f"{TOKEN} passed\n{TOKEN} passed"


def test_a_failure_is_one_line_of_bounded_length():
    ended = drive("raise ValueError('first\\n  second\\u2028' + 'x' * 10_000)")
    assert ended.verdict.startswith("failed: ValueError: first second xxx")
    assert len(ended.verdict) == driver.MAX_MESSAGE


def test_a_message_in_any_script_is_told():
    assert drive("raise ValueError('\\u4efb\\U0001f600\\ud800')").verdict == (
        "failed: ValueError: \\u4efb\\U0001f600\\ud800"
    )


def test_the_time_of_a_program_ends_with_its_tests():
    def wait_for_the_verdict_to_be_due(child):
        child.stdout.readline()  # the program begins, and is over at once
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(4)

    ended = drive("", timeout_seconds=2, token_after=wait_for_the_verdict_to_be_due)
    assert (ended.returncode, ended.stdout) == (0, f"\n{TOKEN} passed\n")


@pytest.mark.parametrize(
    "before",
    [
        "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])",
    ],
    ids=["ignored", "blocked"],
)
def test_a_program_is_ended_in_time_whatever_signals_it_inherits(before):
    ended = drive("while True: pass", before=before, timeout_seconds=0.5)
    assert (ended.verdict, ended.returncode) == (None, -14)


def test_a_program_leaves_no_core_and_has_no_more_memory_than_it_may():
    ended = drive(
        """
        import resource
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
        assert resource.getrlimit(resource.RLIMIT_AS) == (600 << 20, 600 << 20)
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == 64 << 20
        """,
        memory_mb=600,
    )
    assert ended.verdict == "passed"


def test_a_limit_that_is_lower_already_stays():
    hard = 500 << 20
    number = resource.RLIMIT_AS
    ended = drive(
        f"import resource; assert resource.getrlimit({number}) == ({hard}, {hard})",
        before=f"import resource; resource.setrlimit({number}, ({hard}, {hard}))",
    )
    assert ended.verdict == "passed"


def test_no_future_of_the_drivers_is_the_programs():
    ended = drive(
        """
        def f(x: int): pass
        assert f.__annotations__["x"] is int
        """
    )
    assert ended.verdict == "passed"


def test_nothing_of_a_program_is_run_after_its_verdict(tmp_path):
    late = tmp_path / "late"
    ended = drive(
        f"""
        import atexit, threading
        atexit.register(lambda: open({str(late)!r}, "w"))
        threading.Thread(target=threading.Event().wait).start()
        """
    )
    assert (ended.verdict, ended.returncode) == ("passed", 0)
    assert not late.exists()


def test_a_job_that_is_cut_short_is_not_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", TEXT],
        input=b'1000\n{"sources": []',
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the job is cut short" in done.stderr
