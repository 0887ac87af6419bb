"""`tool_loop` against a scripted endpoint over HTTP, with real sandboxes."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from agentcompass.components.base import AgentOutcome, TaskInput
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.tool_loop.conversation import Conversation, acceptable
from agentcompass.components.harnesses.tool_loop.loop import NUDGE, SYSTEM_PROMPT, ToolLoop
from agentcompass.components.harnesses.tool_loop.tools import clamped_seconds, cut, parsed, readable
from agentcompass.components.messages import Message, Reply, ToolCall
from agentcompass.components.models.client import open_client
from agentcompass.errors import ModelError, SandboxError
from agentcompass.records import Usage
from agentcompass.store import jsonl
from agentcompass.testing import FakeEndpoint, chat, error
from support.components import make, open_session
from support.requests import component, model_config, request
from support.scripted import run as run_engine

ROOT = Path(__file__).parents[3]
TOLD = TaskInput(messages=(Message(role="user", content="Do it."),))
TOO_LONG = error(400, "too long", code="context_length_exceeded")


def bash(command, **arguments):
    return ("bash", json.dumps({"command": command, **arguments}))


def submit(answer="done"):
    return ("submit", json.dumps({"answer": answer}))


def calls(*tool_calls, **fields):
    return chat(None, tool_calls=tool_calls, **fields)


@attrs.frozen
class Attempt:
    """What came of an attempt: the outcome, the steps, and the bodies of the requests."""

    outcome: AgentOutcome
    steps: list
    asked: list

    def of(self, kind):
        return [step for step in self.steps if step["type"] == kind]

    @property
    def outputs(self):
        return [step["output"] for step in self.of("tool")]


async def attempt(tmp_path, *reactions, told=TOLD, **params):
    seen_steps = []

    async def emit(step):
        seen_steps.append(json.loads(json.dumps(step, allow_nan=False)))

    with FakeEndpoint(list(reactions)) as endpoint:
        config = model_config(base_url=endpoint.base_url, max_retries=0)
        client = open_client(config, harness_protocols=ToolLoop.protocols, prices={})
        try:
            async with open_session(tmp_path, {"root": str(tmp_path)}) as session:
                model = client.lend(lambda _retry: None)
                outcome = await make(ToolLoop, **params).run(told, session, model, emit)
        finally:
            await client.aclose()
        return Attempt(outcome, seen_steps, [seen.json for seen in endpoint.requests])


async def test_a_task_is_solved_by_commands_and_an_answer(tmp_path):
    done = await attempt(
        tmp_path,
        calls(bash("echo 6 > a; echo 7 > b")),
        calls(bash("echo $(( $(cat a) * $(cat b) ))")),
        calls(submit("42")),
    )
    assert done.outcome == AgentOutcome(answer="42")
    assert done.outputs == ["exit code 0\n(no output)", "exit code 0\n42\n", "submitted"]


async def test_the_model_is_told_the_tools_the_task_and_what_came_of_each_call(tmp_path):
    done = await attempt(tmp_path, calls(bash("echo hi")), calls(submit()))
    first, second = done.asked
    assert [tool["function"]["name"] for tool in first["tools"]] == ["bash", "submit"]
    assert first["messages"] == [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": "Do it."},
    ]
    assistant, tool = second["messages"][2:]
    assert assistant["tool_calls"][0]["function"]["arguments"] == bash("echo hi")[1]
    assert tool == {"role": "tool", "content": "exit code 0\nhi\n", "tool_call_id": "call-0"}


async def test_the_tasks_system_message_follows_the_harnesses_own(tmp_path):
    told = TaskInput(
        messages=(Message(role="system", content="T"), Message(role="user", content="u"))
    )
    done = await attempt(tmp_path, calls(submit()), told=told, system_prompt="S")
    assert done.asked[0]["messages"][0] == {"role": "system", "content": "S\n\nT"}


async def test_the_trajectory_is_the_one_of_the_documentation(tmp_path):
    done = await attempt(
        tmp_path, calls(bash("echo hi; exit 3"), usage={"prompt_tokens": 5, "completion_tokens": 2}),
        calls(submit("x")),
    )  # fmt: skip
    kinds = ["message", "message", "reply", "tool", "reply", "tool", "final"]
    assert [step["type"] for step in done.steps] == kinds
    reply, tool, final = done.of("reply")[0], done.of("tool")[0], done.of("final")[0]
    assert reply["turn"] == 1
    assert reply["tool_calls"] == [
        {"id": "call-0", "name": "bash", "arguments": bash("echo hi; exit 3")[1]}
    ]
    assert (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]) == (5, 2)
    assert tool.pop("seconds") > 0
    assert tool == {
        "type": "tool", "turn": 1, "tool_call_id": "call-0", "name": "bash",
        "output": "exit code 3\nhi\n", "exit_code": 3, "timed_out": False, "truncated": False, "error": None,
    }  # fmt: skip
    assert final["usage"]["calls"] == 2
    assert (final["answer"], final["stopped_by"], final["turns"]) == ("x", None, 2)


async def test_several_calls_of_one_message_are_done_in_order_up_to_submit(tmp_path):
    done = await attempt(
        tmp_path, calls(bash("echo 1 >> log"), bash("cat log"), submit("a"), bash("echo 2 >> log"))
    )
    assert done.outcome.answer == "a"
    assert done.outputs == ["exit code 0\n(no output)", "exit code 0\n1\n", "submitted"]


async def test_both_outputs_come_in_the_order_in_which_they_were_written(tmp_path):
    done = await attempt(tmp_path, calls(bash("echo 1; echo 2 >&2; echo 3")), calls(submit()))
    assert done.outputs[0] == "exit code 0\n1\n2\n3\n"


async def test_commands_run_in_bash_where_there_is_one(tmp_path):
    done = await attempt(tmp_path, calls(bash("echo ${BASH_VERSION:+yes}")), calls(submit()))
    assert done.outputs[0] == "exit code 0\nyes\n"


@pytest.mark.parametrize(
    ("name", "arguments", "words", "code"),
    [
        ("python", "{}", "There is no tool 'python'; there are `bash` and `submit`.", "unknown-tool"),
        ("bash", '{"command": "l', "no valid JSON", "bad-arguments"),
        ("bash", "[1]", "must be a JSON object", "bad-arguments"),
        ("bash", "", "`command` must be a text", "bad-arguments"),
        ("bash", '{"command": ["ls", "-l"]}', "`command` must be a text", "bad-arguments"),
        ("bash", '{"command": "  "}', "`command` must be a text", "bad-arguments"),
        ("submit", '{"answer": "x', "no valid JSON", "bad-arguments"),
        ("bash", "[" * 100_000, "nested too deeply", "bad-arguments"),
        ("bash", '{"command": "ls", "timeout": NaN}', "no valid JSON (NaN is none", "bad-arguments"),
    ],
    ids=["unknown", "torn", "list", "nothing", "command-list", "blank", "torn-submit", "deep", "nan"],
)  # fmt: skip
async def test_a_call_that_makes_no_sense_is_explained_to_the_model(
    tmp_path, name, arguments, words, code
):
    done = await attempt(tmp_path, calls((name, arguments)), calls(submit("recovered")))
    assert done.outcome == AgentOutcome(answer="recovered")
    assert words in done.outputs[0]
    assert done.of("tool")[0]["error"] == code
    assert done.of("reply")[0]["tool_calls"][0]["arguments"] == arguments
    # servers that parse the arguments of former calls would refuse the whole conversation
    sent = done.asked[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(jsonl.decode(sent.encode()), dict)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ('{"answer": 42}', "42"),
        ('{"answer": {"a": ["é"]}}', '{"a": ["é"]}'),
        ('{"answer": null}', ""),
        ("{}", ""),
        ("", ""),
        ('{"answer": true}', "true"),
    ],
)
async def test_an_answer_that_is_no_text_is_what_it_says(tmp_path, arguments, answer):
    done = await attempt(tmp_path, calls(("submit", arguments)))
    assert done.outcome == AgentOutcome(answer=answer)


async def test_a_text_without_call_is_accepted_when_a_reminder_does_not_help(tmp_path):
    done = await attempt(tmp_path, chat("It is 42."), chat("42"))
    assert done.outcome == AgentOutcome(answer="42")
    assert done.asked[1]["messages"][-1] == {"role": "user", "content": NUDGE}
    assert done.of("message")[-1]["content"] == NUDGE


async def test_an_empty_second_text_leaves_the_first_as_the_answer(tmp_path):
    done = await attempt(tmp_path, chat("42"), chat(""))
    assert done.outcome == AgentOutcome(answer="42")


async def test_a_reminder_that_helps_leads_on_and_is_given_again_later(tmp_path):
    done = await attempt(
        tmp_path, chat("Hm."), calls(bash("true")), chat("So."), calls(submit("42"))
    )
    assert done.outcome == AgentOutcome(answer="42")
    assert [step["content"] for step in done.of("message")].count(NUDGE) == 2


async def test_an_accepted_text_that_was_cut_off_says_so(tmp_path):
    done = await attempt(tmp_path, chat("a"), chat("b", finish_reason="length"))
    assert done.outcome == AgentOutcome(answer="b", stopped_by="max_tokens")


async def test_the_turns_are_limited(tmp_path):
    done = await attempt(tmp_path, calls(bash("true")), max_turns=3)
    assert done.outcome == AgentOutcome(stopped_by="max_turns")
    assert len(done.asked) == done.of("final")[0]["turns"] == 3


async def test_a_text_in_the_last_turn_is_an_answer(tmp_path):
    done = await attempt(tmp_path, chat("42"), max_turns=1)
    assert done.outcome == AgentOutcome(answer="42", stopped_by="max_turns")


async def test_the_tokens_are_limited(tmp_path):
    usage = {"prompt_tokens": 90, "completion_tokens": 10}
    done = await attempt(tmp_path, calls(bash("true"), usage=usage), token_budget=150)
    assert done.outcome == AgentOutcome(stopped_by="budget")
    assert len(done.asked) == 2
    assert done.of("final")[0]["usage"]["input_tokens"] == 180


async def test_what_was_submitted_with_the_last_of_the_tokens_counts(tmp_path):
    usage = {"prompt_tokens": 1000, "completion_tokens": 10}
    done = await attempt(tmp_path, calls(submit("42"), usage=usage), token_budget=1)
    assert done.outcome == AgentOutcome(answer="42")


async def test_a_conversation_that_is_too_long_goes_on_without_its_older_outputs(tmp_path):
    done = await attempt(
        tmp_path,
        calls(bash("seq 100"), bash("true")), calls(bash("seq 200 300")), TOO_LONG, calls(submit("42")),
    )  # fmt: skip
    assert done.outcome == AgentOutcome(answer="42")
    assert done.of("elided") == [{"type": "elided", "outputs": 1}]
    assert done.of("error")[0]["code"] == "context-exceeded"
    tools = [m["content"] for m in done.asked[-1]["messages"] if m["role"] == "tool"]
    assert tools[0] == "[304 bytes of output left out to make room]"
    # shorter than the note, and what the last reply asked for: both stay
    assert tools[1] == "exit code 0\n(no output)"
    assert tools[2].startswith("exit code 0\n200\n")


async def test_a_conversation_that_cannot_be_shortened_ends_the_attempt(tmp_path):
    done = await attempt(tmp_path, calls(bash("seq 1000")), TOO_LONG)
    assert done.outcome == AgentOutcome(stopped_by="context")
    assert len(done.asked) == 2


async def test_a_conversation_that_is_too_long_even_so_ends_the_attempt(tmp_path):
    script = [calls(bash("seq 100")), calls(bash("seq 100")), TOO_LONG]
    done = await attempt(tmp_path, *script)
    assert done.outcome == AgentOutcome(stopped_by="context")
    assert len(done.asked) == 4
    assert done.of("final")[0]["turns"] == 2


async def test_an_endpoint_that_fails_is_no_outcome(tmp_path):
    with pytest.raises(ModelError, match="internal"):
        await attempt(tmp_path, calls(bash("true")), error(500, "internal"))


async def test_a_command_without_end_and_with_endless_output_is_ended_and_cut(tmp_path):
    done = await attempt(
        tmp_path, calls(bash("echo first; yes x", timeout=-1)), calls(submit()),
        command_timeout_seconds=1.0, max_output_bytes=2048,
    )  # fmt: skip
    (step, _) = done.of("tool")
    assert step["output"].startswith("ended after 1 s, before it was done\nfirst\n")
    assert step["output"].endswith("x\n")
    assert len(step["output"].encode()) <= 2048 + 100
    assert (step["exit_code"], step["timed_out"], step["truncated"]) == (124, True, True)


async def test_bytes_that_are_no_text_take_no_more_room_than_text(tmp_path):
    done = await attempt(
        tmp_path, calls(bash("head -c 100000 /dev/zero | tr '\\0' '\\377'")), calls(submit()),
        max_output_bytes=4096,
    )  # fmt: skip
    assert 3000 < len(done.outputs[0].encode()) <= 4096 + 100


async def test_a_background_process_holds_nothing_up(tmp_path):
    done = await attempt(tmp_path, calls(bash("sleep 300 & echo on")), calls(submit()))
    assert done.outputs[0] == "exit code 0\non\n"
    assert done.of("tool")[0]["seconds"] < 30


@pytest.mark.parametrize("bad", ["nul \0 in it", "x" * 3_000_000], ids=["nul", "huge"])
async def test_a_command_that_cannot_be_started_is_an_output(tmp_path, bad):
    done = await attempt(tmp_path, calls(bash(f"echo {bad}")), calls(submit("on")))
    assert done.outcome == AgentOutcome(answer="on")
    assert done.of("tool")[0]["exit_code"] in {1, 2, 126}


async def test_lone_surrogates_go_everywhere_as_something_readable(tmp_path):
    broken = '{"command": "printf %s \\ud83d > f; wc -c < f"}'
    done = await attempt(
        tmp_path,
        chat("so \ud83d", tool_calls=[("bash", broken)]), chat("\ud83d"), calls(submit("\ud83d")),
    )  # fmt: skip
    assert done.outputs[0] == "exit code 0\n3\n"
    assert done.outcome.answer == "\ud83d"
    # decoding the requests strictly shows that no endpoint gets half a character, escaped or not
    for body in done.asked:
        json.dumps(body, ensure_ascii=False).encode()
    assert "\\ud83d" not in done.asked[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]


async def test_without_sandbox_there_is_no_attempt():
    with pytest.raises(SandboxError):
        await make(ToolLoop).run(TOLD, None, None, None)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (5, 5), (2.5, 2.5), ("7", 7), (1e9, 60), (0.001, 1), (0, 60), (-1, 60), (True, 60), (None, 60),
        (float("nan"), 60), (float("inf"), 60), ("soon", 60), ([1], 60), ({}, 60), (10**400, 60),
    ],
)  # fmt: skip
def test_a_time_that_a_model_asks_for_is_held_to_what_is_allowed(asked, seconds):
    assert clamped_seconds(asked, 60.0) == seconds


def test_no_command_gets_longer_than_a_limit_under_a_second():
    assert clamped_seconds(5, 0.5) == 0.5


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("letter", ["x", "é", "𝄞"])
def test_a_text_is_cut_to_its_bytes_between_its_letters(size, letter):
    text, was_cut = cut(letter * size, 1024)
    assert len(text.encode()) <= 1024
    assert was_cut == (len(letter.encode()) * size > 1024)
    if was_cut:
        head, _, tail = text.split("\n")
        assert set(head + tail) == {letter}
    else:
        assert text == letter * size


def test_arguments_that_need_no_change_go_back_as_they_came():
    text = '{"command":   "ls", "x": 1.0}'
    message = Message(role="assistant", tool_calls=(ToolCall(id="1", name="bash", arguments=text),))
    assert acceptable(message) == message


def test_no_arguments_are_an_empty_object():
    assert parsed("") == parsed("  ") == {}
    message = Message(role="assistant", tool_calls=(ToolCall(id="1", name="bash", arguments=""),))
    assert acceptable(message).tool_calls[0].arguments == "{}"


def test_whole_characters_are_left_as_they_are():
    assert readable("a é 𝄞 \x00 \ufeff") == "a é 𝄞 \x00 \ufeff"


def test_outputs_are_left_out_once():
    conversation = Conversation([Message(role="user", content="u")])
    call = ToolCall(id="1", name="bash", arguments="{}")
    for _ in range(3):
        conversation.add(Message(role="assistant", tool_calls=(call,)))
        conversation.add_result(call, "x" * 500)
    assert (conversation.elide(), conversation.elide()) == (2, 0)
    assert [len(message.text) for message in conversation.messages if message.role == "tool"] == [
        43,
        43,
        500,
    ]


def test_every_kind_of_step_is_documented_with_its_fields():
    page = (ROOT / "docs" / "trajectories.md").read_text()
    call = ToolCall(id="1", name="bash", arguments="{}")
    reply = Reply(message=Message(role="assistant"), stop_reason="stop", usage=Usage())
    for step in (
        steps.message_step(Message(role="user", content="u")),
        steps.reply_step(reply, 0.0, turn=1),
        steps.tool_step(call, steps.ToolResult(text=""), 0.0, turn=1),
        steps.error_step(ModelError("m")),
        steps.final_step(AgentOutcome(), turns=1, usage=Usage()),
    ):
        assert f"\n| `{step['type']}` | " in page
        assert [field for field in step if f"`{field}`" not in page] == []


SOLUTION = "def strlen(string: str) -> int:\n    return len(string)\n"


async def test_humaneval_is_solved_with_tools_and_graded_in_a_sandbox_of_its_own(tmp_path):
    script = [
        calls(bash(f"cat > s.py <<'E'\n{SOLUTION}E")),
        calls(bash("python3 -c 'from s import strlen; print(strlen(\"abc\"))'")),
        calls(submit(SOLUTION)),
    ]
    with FakeEndpoint(script) as endpoint:
        made = request(
            component("benchmark", "humaneval", sample_ids=("HumanEval/23",)),
            component("harness", "tool_loop"),
            model=model_config(base_url=endpoint.base_url),
        )
        ran = await run_engine(tmp_path, made)
    record = ran.record()
    assert (record.verdict, record.metrics, record.stopped_by) == ("graded", {"pass": 1.0}, None)
    assert record.usage.calls == 3
    (file,) = ran.run_dir().glob("tasks/*/*/trajectory.jsonl")
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    assert recorded[-1]["type"] == "final"
    assert "exit code 0\n3\n" in [step.get("output") for step in recorded]


async def test_files_that_the_agent_leaves_are_what_a_command_judges(tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        json.dumps({"id": "t", "prompt": "Write 42 into f.", "command": "grep -qx 42 f"}) + "\n"
    )
    benchmark = component("benchmark", "jsonl", path=tasks, evaluate_in="reuse")
    with FakeEndpoint([calls(bash("echo 41 > f")), calls(bash("echo 42 > f"))]) as endpoint:
        made = request(
            attrs.evolve(benchmark, written={"path": str(tasks), "evaluate_in": "reuse"}),
            component("harness", "tool_loop", max_turns=2),
            model=model_config(base_url=endpoint.base_url),
        )
        ran = await run_engine(tmp_path, made)
    assert ran.record().metrics == {"correct": 1.0}
    assert ran.record().stopped_by == "max_turns"
