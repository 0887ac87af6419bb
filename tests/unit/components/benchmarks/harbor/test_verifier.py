"""How tests are run around an agent that may interfere, in a sandbox that is made up: e2e/ has real ones."""

from __future__ import annotations

import pytest
import trio

from agentcompass.components.base import ExecResult, Session
from agentcompass.components.benchmarks.harbor import definition, verifier
from agentcompass.components.benchmarks.harbor.trust import PRELOAD, Memory
from agentcompass.components.benchmarks.harbor.verifier import Rules, Verifier
from agentcompass.errors import EvaluatorError, InfraError, SandboxError

REWARD = "/logs/verifier/reward.txt"
FAILED = "=== short test summary info ===\nFAILED t.py::a\n=== 1 failed in 0.01s ===\n"
SUMMARY = "=== short test summary info ===\nPASSED t.py::a\n=== 1 passed in 0.01s ===\n"


class Sandbox(Session):
    """Files in memory; `tests` and `interfere` say what scripts and others do."""

    workdir = "/app"

    def __init__(self):
        self.files = {"/bin/bash": b"bash", "/bin/sh": b"sh", "/bin/rm": b"rm"}
        self.tests = lambda: self.put(REWARD, b"1\n")
        self.interfere = lambda: None
        self.is_left = lambda _path: False
        self.n_ended = self.n_rehearsals = 0
        self.timeouts = []

    def put(self, path, data):
        self.files[path] = data

    async def exec(
        self, command, *, cwd=None, env=None, user=None, timeout=None, stdin=None, max_output=0
    ):
        if command[1] == "-c":
            paths = [p for p in self.files if p.startswith(("/tests/", "/logs/verifier/"))]
            for path in paths:
                if not self.is_left(path):
                    del self.files[path]
            left = [path for path in paths if path in self.files]
            return ExecResult(returncode=int(bool(left)), stdout="\n".join(left), stderr="")
        script = self.files[command[1]]
        result = None
        if script == b"real\n":
            self.timeouts.append(timeout)
            result = self.tests()
        else:
            self.n_rehearsals += 1
            self.put(REWARD, b"0\n")
            if b"test_rehearsal" in script:
                result = ExecResult(returncode=1, stdout=FAILED, stderr="")
        self.interfere()
        return result or ExecResult(returncode=0, stdout="said", stderr="")

    async def read_bytes(self, path, *, max_bytes=None):
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][:max_bytes]

    async def write_bytes(self, path, data, *, mode=0o644):
        self.put(path, data)

    async def upload(self, source, target):
        if source.is_file():
            self.put(target, source.read_bytes())

    async def download(self, source, target, *, max_bytes=None):
        target.mkdir()
        for path, data in self.files.items():
            if path.startswith(f"{source}/"):
                (target / path.removeprefix(f"{source}/")).write_bytes(data)

    async def end_processes(self):
        self.n_ended += 1
        self.interfere = lambda: None
        return 1

    def process(self, argv, *, tty=False, cwd=None, env=None):
        raise AssertionError("nothing interactive is needed")


@pytest.fixture
def sandbox():
    return Sandbox()


@pytest.fixture
def evaluate(tmp_path, sandbox):
    """Evaluate the sandbox after an agent, a function, has worked in it."""

    async def run(agent=lambda: None, scoring="reward", ends_leftovers=False):
        (tmp_path / "test.sh").write_text("real\n")
        memory = Memory()
        await memory.remember(sandbox)
        agent()
        tests = definition.Tests(
            folder=None,
            script=definition.Upload(source=tmp_path / "test.sh", target="/tests/test.sh"),
            scoring=scoring,
            timeout_seconds=100.0,
        )
        return await Verifier(
            sandbox, tests, memory, Rules(ends_leftovers=ends_leftovers)
        ).evaluate()

    return run


async def refused(evaluation, code):
    with pytest.raises(EvaluatorError) as caught:
        await evaluation
    assert caught.value.code == code
    assert not caught.value.retryable
    return caught.value.message


async def test_a_success_is_rehearsed_before_and_after(sandbox, evaluate, autojump_clock):
    evaluation = await evaluate()
    assert evaluation.metrics == {"resolved": 1.0, "reward": 1.0}
    assert evaluation.details["output"] == "said"
    assert evaluation.files["reward.txt"] == b"1\n"
    assert sandbox.n_rehearsals == 2
    assert sandbox.n_ended == 0


async def test_a_failure_is_rehearsed_before_only(sandbox, evaluate, autojump_clock):
    sandbox.tests = lambda: sandbox.put(REWARD, b"0")
    assert (await evaluate()).metrics == {"resolved": 0.0, "reward": 0.0}
    assert sandbox.n_rehearsals == 1


async def test_who_rewrites_the_reward_is_ended(sandbox, evaluate, autojump_clock):
    def agent():
        sandbox.interfere = lambda: sandbox.put(REWARD, b"1")

    sandbox.tests = lambda: sandbox.put(REWARD, b"0")
    evaluation = await evaluate(agent)
    assert evaluation.metrics["reward"] == 0.0
    assert evaluation.details["interference"] == [
        "ended 1 process: the rehearsal of a failure gave a success"
    ]


async def test_what_cannot_be_ended_leaves_no_verdict(sandbox, evaluate, autojump_clock):
    def tests():
        raise AssertionError("the tests are not even run")

    async def end_processes():
        return 1

    sandbox.tests, sandbox.end_processes = tests, end_processes
    sandbox.interfere = lambda: sandbox.put(REWARD, b"1")
    message = await refused(evaluate(), "verifier-tampered")
    assert message == "with all other processes ended, the rehearsal of a failure gave a success"


async def test_what_begins_with_the_tests_leaves_no_verdict(sandbox, evaluate, autojump_clock):
    def tests():
        sandbox.interfere = lambda: sandbox.put(REWARD, b"1")

    sandbox.tests = tests
    message = await refused(evaluate(), "verifier-tampered")
    assert message == "after the tests had passed, the rehearsal of a failure gave a success"


async def test_what_cannot_be_removed_leaves_no_verdict(sandbox, evaluate, autojump_clock):
    sandbox.put("/tests/planted", b"")
    sandbox.is_left = lambda path: path == "/tests/planted"
    message = await refused(evaluate(), "verifier-tampered")
    assert message.startswith("/tests/planted cannot be removed")
    assert sandbox.n_ended == 1


async def test_changed_programs_are_put_back(sandbox, evaluate, autojump_clock):
    def agent():
        sandbox.put("/bin/bash", b"bash and more")
        sandbox.put(PRELOAD, b"/evil.so")
        del sandbox.files["/bin/rm"]

    evaluation = await evaluate(agent)
    assert sandbox.files["/bin/bash"] == b"bash"
    assert sandbox.files["/bin/rm"] == b"rm"
    assert sandbox.files[PRELOAD] == b""
    assert evaluation.details["interference"] == [
        "/bin/bash was replaced",
        "/bin/rm was gone",
        f"{PRELOAD} was written",
    ]


async def test_an_image_without_bash_is_known_before_the_agent_begins(sandbox, evaluate):
    del sandbox.files["/bin/bash"]
    with pytest.raises(InfraError) as caught:
        await evaluate()
    assert caught.value.code == "bash-missing"


async def test_a_full_disk_is_not_tried_again(sandbox, evaluate, autojump_clock):
    def tests():
        raise SandboxError("the disk was full", code="disk-full")

    sandbox.tests = tests
    assert "the disk was full" in await refused(evaluate(), "disk-full")


async def test_a_failure_of_the_sandbox_stays_one(sandbox, evaluate, autojump_clock):
    def tests():
        raise SandboxError("the engine is gone", code="engine-lost")

    sandbox.tests = tests
    with pytest.raises(SandboxError) as caught:
        await evaluate()
    assert caught.value.retryable


async def test_no_reward_says_how_the_tests_ended(sandbox, evaluate, autojump_clock):
    sandbox.tests = lambda: ExecResult(returncode=3, stdout="", stderr="no curl here")
    message = await refused(evaluate(), "no-reward")
    assert message.endswith("(exit code 3); its output ended with: no curl here")


async def test_tests_that_take_too_long_leave_no_verdict(sandbox, evaluate, autojump_clock):
    sandbox.tests = lambda: ExecResult(returncode=124, stdout="begun", stderr="", timed_out=True)
    message = await refused(evaluate(), "verifier-timeout")
    assert message == "the tests were not over after 100 s; its output ended with: begun"


async def test_processes_are_ended_first_where_that_is_asked_for(sandbox, evaluate, autojump_clock):
    evaluation = await evaluate(ends_leftovers=True)
    assert sandbox.n_ended == 1
    assert evaluation.metrics["reward"] == 1.0


async def test_logs_that_are_too_many_are_left_behind(sandbox, evaluate, autojump_clock):
    async def download(*_args, **_kwargs):
        raise SandboxError("too large", code="artifact-too-large", retryable=False)

    sandbox.download = download
    evaluation = await evaluate()
    assert evaluation.metrics["reward"] == 1.0
    assert set(evaluation.files) == {"test-stdout.txt", "test-stderr.txt"}
    assert "could not be kept" in evaluation.details["interference"][0]


async def test_pytests_summary_is_the_score_of_the_first_generation(sandbox, evaluate):
    sandbox.tests = lambda: ExecResult(returncode=0, stdout=SUMMARY, stderr="")
    evaluation = await evaluate(scoring="pytest")
    assert evaluation.metrics == {"resolved": 1.0, "reward": 1.0}
    assert evaluation.details["tests"] == 1


@pytest.mark.parametrize("multiplier", [0.5, 1.0, 3.0])
async def test_the_tests_have_the_tasks_time_as_multiplied(sandbox, evaluate, multiplier):
    sandbox.tests = lambda: ExecResult(returncode=0, stdout=SUMMARY, stderr="")
    with trio.fail_after(multiplier * (100 + verifier.EVALUATION_SECONDS)):
        await evaluate(scoring="pytest")
    assert sandbox.timeouts == [pytest.approx(multiplier * 100, rel=0.01)]


async def test_the_tests_have_the_tasks_time_where_the_evaluation_has_no_limit(sandbox, evaluate):
    sandbox.tests = lambda: ExecResult(returncode=0, stdout=SUMMARY, stderr="")
    await evaluate(scoring="pytest")
    assert sandbox.timeouts == [100.0]


async def test_sandboxes_with_the_same_programs_share_what_is_remembered(sandbox):
    memory, other = Memory(), Sandbox()
    await memory.remember(sandbox)
    await memory.remember(other)
    contents = {id(one) for one in memory._contents.values()}
    assert len(contents) == 3
    del other
    assert await memory.restore(sandbox) == []
