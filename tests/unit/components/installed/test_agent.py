"""Installed agents, with a program that does what the test says in their place: real processes, a real gateway."""

import attrs
import pytest
import trio

from agentcompass.components.base import TaskInput
from agentcompass.components.harnesses.claude_code.harness import ClaudeCode, ClaudeCodeParams
from agentcompass.components.harnesses.installed import running
from agentcompass.components.messages import Message
from agentcompass.errors import InfraError, ModelError, SandboxError
from agentcompass.testing import FakeEndpoint, anthropic_error, error, message, streamed
from support.host import gone, new_mark
from support.installed_agent import attempt, result, tool_result

HELLO = streamed(message("hello"))
ASKS = streamed(message("let me", tool_calls=[("Bash", {"command": "x"})], thinking="hm"))


@pytest.fixture
async def one(tmp_path):
    with FakeEndpoint(HELLO) as endpoint:
        async with attempt(tmp_path, endpoint) as made:
            made.endpoint = endpoint
            yield made


async def test_the_trajectory_tells_who_said_and_did_what_in_order(tmp_path):
    with FakeEndpoint([ASKS, HELLO]) as endpoint:
        async with attempt(tmp_path, endpoint) as one:
            outcome = await one.run(
                ["say", {"type": "system", "subtype": "init", "claude_code_version": "9"}],
                ["ask"],
                ["say", tool_result("call-0", "Exit code 3\nno", is_error=True)],
                ["ask"],
                ["say", {"type": "assistant", "message": {}}],
                ["say", result("it is done")],
            )
    assert (outcome.answer, outcome.stopped_by) == ("it is done", None)
    kinds = [step["type"] for step in one.steps]
    assert kinds == ["message", "claude_code", "reply", "tool", "reply", "final"]
    _, started, reply, tool, last, final = one.steps
    assert started["event"]["version"] == "9"
    assert (reply["turn"], reply["reasoning"], reply["usage"]["output_tokens"]) == (1, "hm", 3)
    assert (tool["turn"], tool["tool_call_id"], tool["name"], tool["exit_code"]) == (
        1,
        "call-0",
        "Bash",
        3,
    )
    assert (last["turn"], last["content"]) == (2, "hello")
    assert (final["turns"], final["usage"]["calls"]) == (2, 2)


async def test_what_the_task_says_reaches_the_program_whatever_it_is(one):
    task = "--version\n" + "ü\0'\"$(id)\n" * 30_000
    outcome = await one.run(["ask"], ["repeat"], task=task)
    assert outcome.answer == task


async def test_the_program_gets_what_it_needs_and_nothing_of_this_machine(one, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of this machine")
    shown = {}
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "DISABLE_TELEMETRY"):
        shown[name] = (await one.run(["ask"], ["show", name])).answer
    assert list(shown.values()) == ["nothing", "org/model", "1"]
    assert (await one.run(["ask"], ["show", "MORE"], env_variables={"MORE": "x"})).answer == "x"


async def test_arguments_of_the_user_s_come_last(one):
    outcome = await one.run(["ask"], ["arguments"], arguments=("--effort", "low"), max_turns=7)
    assert outcome.answer.endswith('"--effort", "low"]')
    assert '"--max-turns", "7"' in outcome.answer
    assert "WebSearch" in outcome.answer
    assert "WebSearch" not in (await one.run(["ask"], ["arguments"], web=True)).answer


async def test_its_own_files_are_outside_of_the_task_s_directory_and_gone_in_the_end(one):
    home = (await one.run(["ask"], ["show", "CLAUDE_CONFIG_DIR"])).answer
    assert not home.startswith(f"{one.session.workdir}/")
    assert not await one.session.exists(home)
    listed = await one.session.exec(["find", ".", "-mindepth", "1"])
    assert listed.stdout == ""


# --- bad days


async def test_a_program_that_is_not_there_is_said_to_be_not_there(one):
    with pytest.raises(SandboxError, match="has no 'claude-nowhere'") as caught:
        await one.run(program="claude-nowhere")
    assert (caught.value.code, caught.value.retryable) == ("agent-not-found", False)


async def test_a_program_that_cannot_start_is_told_with_its_cause(one, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(InfraError, match=r"ended with exit code 12[67].*not found") as caught:
        await one.run(program=str(broken))
    assert caught.value.code == "agent-failed"


async def test_a_program_that_crashes_is_told_with_what_it_said_last(one):
    with pytest.raises(InfraError) as caught:
        await one.run(["ask"], ["complain", "x" * 100_000 + "Segmentation fault"], ["exit", 139])
    assert "claude-code ended with exit code 139" in caught.value.message
    assert caught.value.message.endswith("Segmentation fault")
    assert len(caught.value.message) < 5000


async def test_a_program_that_says_nothing_has_no_answer(one):
    with pytest.raises(InfraError, match="it said nothing"):
        await one.run(["ask"])


async def test_lines_that_are_no_events_are_noted_and_passed_over(one, monkeypatch):
    monkeypatch.setattr(running, "MAX_LINE_BYTES", 1_000_000)
    outcome = await one.run(
        ["raw", "Warning: {"],
        ["raw", "[1, 2]"],
        ["raw", '{"type": "system", '],
        ["long", 5_000_000],
        ["raw", ""],
        ["ask"],
        ["say", result()],
    )
    assert outcome.answer == "done"
    notes = [step["unreadable"] for step in one.steps.of("claude_code")]
    assert [note[:9] for note in notes] == ["Warning: ", "[1, 2]", '{"type": ', "xxxxxxxxx"]
    assert len(notes[-1]) == running.SHOWN_BYTES


async def test_of_endless_chatter_only_the_beginning_is_kept(one, monkeypatch):
    monkeypatch.setattr(running, "MAX_UNREADABLE", 3)
    await one.run(*[["raw", f"line {n}"] for n in range(10)], ["ask"], ["say", result()])
    notes = [step["unreadable"] for step in one.steps.of("claude_code")]
    assert notes == ["line 0", "line 1", "line 2"]


async def test_large_events_are_read(one):
    outcome = await one.run(["ask"], ["much", 2_000_000])
    assert outcome.answer == "y" * 2_000_000


async def test_a_task_that_is_no_text_is_refused(one):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    harness = ClaudeCode(ClaudeCodeParams(install="image"))
    task = TaskInput(messages=(Message(role="user", content=(image,)),))
    with pytest.raises(InfraError, match="parts of kind image_url"):
        await harness.run(task, one.session, one.model, one.steps)


# --- why it stopped


async def test_it_is_stopped_after_its_turns(one):
    outcome = await one.run(["ask"], ["ask"], ["ask"], ["say", result()], max_turns=2)
    assert (outcome.answer, outcome.stopped_by) == (None, "max_turns")
    assert len(one.endpoint.requests) == 2
    assert one.steps[-1]["turns"] == 2


async def test_it_may_stop_by_itself_after_its_turns(one):
    outcome = await one.run(["ask"], ["say", result(subtype="error_max_turns", is_error=True)])
    assert (outcome.answer, outcome.stopped_by) == (None, "max_turns")


@pytest.mark.parametrize(
    ("reaction", "stopped_by"),
    [
        (streamed(message("half", stop_reason="max_tokens")), "max_tokens"),
        (streamed(message("", stop_reason="refusal")), "refusal"),
        (
            anthropic_error(400, "prompt is too long: 9 > 8", type="invalid_request_error"),
            "context",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cut_its_last_reply_off_is_why_it_stopped(tmp_path, reaction, stopped_by):
    with FakeEndpoint(reaction) as endpoint:
        async with attempt(tmp_path, endpoint) as one:
            outcome = await one.run(["ask"], ["say", result("API Error: x", is_error=True)])
    assert (outcome.answer, outcome.stopped_by) == (None, stopped_by)


async def test_an_error_that_is_no_model_s_is_the_program_s(one):
    with pytest.raises(InfraError, match="it could not go on") as caught:
        await one.run(["ask"], ["say", result("it could not go on", is_error=True)], ["exit", 1])
    assert caught.value.code == "agent-failed"


async def test_a_request_that_the_endpoint_does_not_take_is_told_as_the_endpoint_does(tmp_path):
    with FakeEndpoint(error(400, "thinking: not so")) as endpoint:
        async with attempt(tmp_path, endpoint) as one:
            with pytest.raises(ModelError, match="thinking: not so"):
                await one.run(["ask"], ["say", result("API Error", is_error=True)])


async def test_an_endpoint_that_fails_ends_the_program_wherever_it_is(tmp_path):
    mark = new_mark()
    with FakeEndpoint(error(500, "it broke")) as endpoint:
        async with attempt(tmp_path, endpoint) as one:
            with pytest.raises(ModelError, match="it broke") as caught:
                await one.run(["ask"], ["wait", mark])
            assert await gone(mark)
    assert caught.value.code == "server-error"
    assert [step["code"] for step in one.steps.of("error")] == ["server-error"]


async def test_nothing_of_it_is_left_when_its_time_is_over(one):
    mark = new_mark()
    begun = trio.Event()

    class Watched(type(one.steps)):
        async def __call__(self, step):
            await super().__call__(step)
            if step.get("unreadable") == "waiting":
                begun.set()

    one.steps = Watched()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run, ["ask"], ["wait", mark])
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert await gone(mark)
    assert (one.model.asked, one.model.replies) == (1, 1)


async def test_a_harness_is_needed_a_sandbox():
    harness = ClaudeCode(ClaudeCodeParams())
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await harness.run(TaskInput(messages=(Message(role="user"),)), None, None, None)


def test_parameters_that_the_program_sends_itself_are_refused():
    assert {"tools", "stream"} <= set(ClaudeCode.sends)
    assert attrs.asdict(ClaudeCodeParams())["version"] == "2.1.197"
