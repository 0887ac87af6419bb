"""Judging what an agent left, in its own sandbox, as the published harnesses do, and so that no score is gained by force.

The agent may have been root where the tests run, and what it left running may be its answer. So, around the tests:

1. the shell is put back if it is not what it was (`trust`);
2. `/tests` and `/logs/verifier` are removed and made anew: what was written there before does not count;
3. a rehearsal runs a script that fails in the place of the task's own, in the same way. If that does not give what it
   says, something interferes: all processes are ended, and where a second rehearsal is no better, there is no verdict;
4. the tests are sent, run under their time limit, and what they wrote is read at once, by the environment's transfer;
5. after a success the rehearsal is repeated: what began to interfere meanwhile is found out.

No failure of this can be tried again: an agent must not gain another attempt by breaking its sandbox.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.base import Evaluation, ExecResult, KiB, MiB, Session
from agentcompass.components.benchmarks.harbor import pytest_summary, rewards
from agentcompass.components.benchmarks.harbor.definition import LOGS_DIR, TESTS_DIR, Tests
from agentcompass.components.benchmarks.harbor.tasks import EVALUATION_SECONDS
from agentcompass.components.benchmarks.harbor.trust import BASH, REMOVE, Memory
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError, SandboxError, counted
from agentcompass.records import JSON

STEP_SECONDS: Final = 60.0
"""For each command that is not the tests."""
WATCH_SECONDS: Final = 0.3
"""How long a rehearsed reward is left alone, to see whether it stays."""
MAX_OUTPUT: Final = 4 * MiB
"""Of the tests, kept of each stream."""
MAX_LOGS: Final = 8 * MiB
"""Of `/logs/verifier`, kept with the attempt."""
SHOWN: Final = 4000
"""Characters of the tests' output that a record shows, from its end."""
ROOT: Final = "root"
_FULL: Final = frozenset({"disk-full", "storage-exceeded"})

_WIPE: Final = f"""\
shopt -s nullglob dotglob
{REMOVE} -rf -- "$@" 2>/dev/null
for path; do
    # what is mounted there stays, empty
    if [[ -L $path || -e $path && ! -d $path ]]; then echo "$path"; exit 1; fi
    left=("$path"/*)
    if (( ${{#left[@]}} )); then echo "${{left[0]}}"; exit 1; fi
done
"""
_FAILING: Final[Mapping[str, str]] = {
    "reward": f"echo 0 > {LOGS_DIR}/{rewards.TEXT_FILE}\nexit 0\n",
    "pytest": """\
echo '=========================== short test summary info ============================'
echo 'FAILED test_outputs.py::test_rehearsal - assert False'
echo '============================== 1 failed in 0.01s ==============================='
exit 1
""",
}
"""Begins the script of a rehearsal, by what is scored."""


@frozen(kw_only=True)
class Rules:
    """How the tests of a benchmark are run."""

    ends_leftovers: bool
    """What the agent left running is ended first."""
    reward_key: str = "reward"
    """Of the reward in `reward.json`."""


@frozen(kw_only=True)
class _Verdict:
    """What a run of a script says."""

    value: float
    details: Mapping[str, JSON]


@final
class Verifier:
    """Judges one sandbox, once.

    Args:
        session: The agent's sandbox.
        tests: The task's.
        memory: Knows what the sandbox was like.
        rules: The benchmark's.
    """

    def __init__(self, session: Session, tests: Tests, memory: Memory, rules: Rules) -> None:
        self._session, self._tests = session, tests
        self._memory, self._rules = memory, rules
        self._remarks: list[str] = []
        limit = trio.current_effective_deadline() - trio.current_time()
        share = tests.timeout_seconds / (tests.timeout_seconds + EVALUATION_SECONDS)
        self._seconds = tests.timeout_seconds if math.isinf(limit) else limit * share

    async def evaluate(self) -> Evaluation:
        """Run the tests and say what they gave: the metrics `resolved` and `reward`.

        Raises:
            EvaluatorError: There is no verdict (codes `no-reward`, `bad-reward`, `no-test-results`,
                `bad-test-results`, `verifier-timeout`, `verifier-tampered`, `disk-full`).
            SandboxError: The sandbox failed.
        """
        try:
            return await self._evaluate()
        except SandboxError as error:
            if error.code not in _FULL:
                raise
            raise EvaluatorError(
                f"the tests could not run in what the agent left: {error.message}",
                code=error.code,
                retryable=False,
            ) from error

    async def _evaluate(self) -> Evaluation:
        if self._rules.ends_leftovers:
            await self._end_processes("as the parameter leftover_processes says")
        async with scratch_folder() as scratch:
            await self._make_sure(scratch)
            result = await self._run(scratch, None)
            verdict = await self._judged(result)
            files = await self._files(scratch, result)
            if verdict.value > 0:
                await self._rehearse(scratch, "after the tests had passed, ")
        return Evaluation(
            metrics={"resolved": float(verdict.value >= 1.0), "reward": verdict.value},
            details={
                **verdict.details,
                "exit_code": result.returncode,
                "seconds": round(result.duration, 3),
                **({"interference": list(self._remarks)} if self._remarks else {}),
                "output": _tail(result),
            },
            files=files,
        )

    # --- before the tests

    async def _make_sure(self, scratch: Path) -> None:
        """Restore and rehearse; end what interferes."""
        self._remarks += await self._memory.restore(self._session)
        try:
            await self._rehearse(scratch)
        except EvaluatorError as error:
            await self._end_processes(error.message)
            self._remarks += await self._memory.restore(self._session)
            await self._rehearse(scratch, "with all other processes ended, ")

    async def _end_processes(self, reason: str) -> None:
        count = await self._session.end_processes()
        if count:
            self._remarks.append(f"ended {counted(count, 'process', 'processes')}: {reason}")

    async def _rehearse(self, scratch: Path, when: str = "") -> None:
        """Run a script that fails in the place of the task's own.

        Raises:
            EvaluatorError: It did not give a failure; the message begins with `when`.
        """
        result = await self._run(scratch, _FAILING[self._tests.scoring])
        if self._tests.scoring == "reward":
            await trio.sleep(WATCH_SECONDS)
        try:
            verdict = await self._verdict(result)
        except EvaluatorError as error:
            raise _tampered(
                f"{when}the rehearsal of a failure gave something else: {error.message} "
                f"(exit code {result.returncode}){_said(result)}"
            ) from error
        if verdict.value != 0:
            raise _tampered(f"{when}the rehearsal of a failure gave a success")

    # --- the tests

    async def _run(self, scratch: Path, rehearsal: str | None) -> ExecResult:
        """Run the task's script, or one that begins with an end of its own, with all that belongs to it made anew."""
        session, tests = self._session, self._tests
        await self._wipe()
        await session.upload(scratch / "empty", LOGS_DIR)
        if tests.folder is not None:
            await session.upload(tests.folder, TESTS_DIR)
        source, script = tests.script.source, tests.script.target
        if rehearsal is None:
            await session.upload(source, script)
        else:
            # with the tests beside it, and its own text below: for who watches, it is the real one
            text = await trio.to_thread.run_sync(source.read_bytes)
            await session.write_bytes(script, f"#!/bin/bash\n{rehearsal}".encode() + text)
        return await session.exec(
            [BASH, script],
            env=tests.env,
            user=tests.user,
            timeout=self._seconds if rehearsal is None else STEP_SECONDS,
            max_output=MAX_OUTPUT,
        )

    async def _wipe(self) -> None:
        # Root first. In a container of another user it may have no more rights than anybody: then the owner goes before.
        result = await self._remove(ROOT)
        if result.returncode != 0:
            await self._remove(None)
            result = await self._remove(ROOT)
        if result.returncode != 0:
            left = result.stdout.strip() or f"{TESTS_DIR} or {LOGS_DIR}"
            raise _tampered(f"{left} cannot be removed{_said(result)}")

    async def _remove(self, user: str | None) -> ExecResult:
        return await self._session.exec(
            [BASH, "-c", _WIPE, "wipe", TESTS_DIR, LOGS_DIR],
            cwd="/",
            user=user,
            timeout=STEP_SECONDS,
            max_output=KiB,
        )

    # --- what they gave

    async def _judged(self, result: ExecResult) -> _Verdict:
        if result.timed_out:
            raise EvaluatorError(
                f"the tests were not over after {self._seconds:.0f} s{_said(result)}",
                code="verifier-timeout",
                retryable=False,
                hint="timeout_multiplier gives agents and tests more time.",
            )
        try:
            return await self._verdict(result)
        except EvaluatorError as error:
            raise EvaluatorError(
                f"{error.message} (exit code {result.returncode}){_said(result)}",
                code=error.code,
                retryable=False,
            ) from None

    async def _verdict(self, result: ExecResult) -> _Verdict:
        if self._tests.scoring == "pytest":
            tests = pytest_summary.read(result.stdout)
            failed = [name for name, passed in tests.items() if not passed]
            details: dict[str, JSON] = {"tests": len(tests), "failed_tests": failed}
            return _Verdict(value=float(not failed), details=details)
        # the files alone, first and at once: what else was written can wait
        text, data = [await self._read(name) for name in (rewards.TEXT_FILE, rewards.JSON_FILE)]
        reward = rewards.parse(text, data, self._rules.reward_key)
        return _Verdict(
            value=reward.value,
            details={"metrics": reward.metrics} if reward.metrics else {},
        )

    async def _read(self, name: str) -> bytes | None:
        try:
            return await self._session.read_bytes(
                f"{LOGS_DIR}/{name}", max_bytes=rewards.MAX_BYTES + 1
            )
        except FileNotFoundError:
            return None

    async def _files(self, scratch: Path, result: ExecResult) -> dict[str, bytes]:
        """What is kept with the attempt; what is too much is not."""
        files = {
            "test-stdout.txt": result.stdout.encode(),
            "test-stderr.txt": result.stderr.encode(),
        }
        copy = scratch / "logs"
        try:
            await self._session.download(LOGS_DIR, copy, max_bytes=MAX_LOGS)
        except (SandboxError, FileNotFoundError) as error:
            self._remarks.append(f"{LOGS_DIR} could not be kept: {error}")
            return files
        return {**files, **await trio.to_thread.run_sync(_contents, copy)}


@asynccontextmanager
async def scratch_folder() -> AsyncIterator[Path]:
    """Lend a directory of this machine with an empty one in it, `empty`, to which everybody may write wherever it is copied."""

    def make() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="agentcompass-verifier-"))
        (folder / "empty").mkdir()
        (folder / "empty").chmod(0o777)
        return folder

    folder = await trio.to_thread.run_sync(make)
    try:
        yield folder
    finally:
        with trio.CancelScope(shield=True):  # some small files
            await trio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _tail(result: ExecResult) -> str:
    return f"{result.stdout}{result.stderr}".strip()[-SHOWN:]


def _said(result: ExecResult) -> str:
    """The end of what a command printed, as the end of a sentence."""
    tail = _tail(result)[-500:].strip()
    return f"; its output ended with: {tail}" if tail else ""


def _tampered(sentence: str) -> EvaluatorError:
    return EvaluatorError(sentence, code="verifier-tampered", retryable=False)
