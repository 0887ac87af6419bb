"""What the agents tell, as steps: events as the pinned versions write them."""

import json

import pytest

from agentcompass.components.base import ServedCall
from agentcompass.components.harnesses.claude_code.events import ClaudeCodeHearing
from agentcompass.components.harnesses.claude_code.harness import ClaudeCode, ClaudeCodeParams
from agentcompass.components.harnesses.codex.events import CodexHearing
from agentcompass.components.harnesses.codex.harness import Codex, CodexParams
from agentcompass.components.harnesses.installed.account import Account
from agentcompass.components.harnesses.installed.agent import Report
from agentcompass.components.harnesses.installed.place import Place
from agentcompass.components.messages import Message, Reply, ToolCall
from agentcompass.records import Usage
from support.installed_agent import Steps, result, tool_result


class Heard:
    """One attempt that is listened to."""

    def __init__(self, kind, *calls):
        self.steps = Steps()
        self.account = Account(self.steps)
        self.hearing = kind(self.account)
        self.calls = calls

    async def take(self, *events):
        message = Message(role="assistant", tool_calls=self.calls)
        reply = Reply(message=message, stop_reason="tool_calls", usage=Usage(calls=1))
        await self.account.take_call(ServedCall(seconds=1.0, reply=reply))
        for event in events:
            await self.hearing.take(event)
        await self.account.end()
        return self.steps[1:]


# --- Claude Code


def bash(call_id="call-0"):
    return ToolCall(id=call_id, name="Bash", arguments='{"command": "x"}')


@pytest.mark.parametrize(("task", "given"), [("/context", "\n/context"), ("a /b", "a /b")])
def test_claude_code_takes_no_task_for_one_of_its_commands(task, given):
    assert ClaudeCode(ClaudeCodeParams()).worded(task) == given


@pytest.mark.parametrize(
    ("event", "exit_code", "error", "output"),
    [
        ({**tool_result("call-0", "hi"), "tool_use_result": {"stdout": "hi"}}, 0, None, "hi"),
        (
            {**tool_result("call-0", "Exit code 3\nno", is_error=True)},
            3,
            None,
            "Exit code 3\nno",
        ),
        (tool_result("call-0", "a file", is_error=False), None, None, "a file"),
        (
            tool_result(
                "call-0", "<tool_use_error>InputValidationError: x</tool_use_error>", is_error=True
            ),
            None,
            "bad-arguments",
            "<tool_use_error>InputValidationError: x</tool_use_error>",
        ),
        (
            tool_result(
                "call-0",
                "<tool_use_error>Error: No such tool available: X</tool_use_error>",
                is_error=True,
            ),
            None,
            "unknown-tool",
            "<tool_use_error>Error: No such tool available: X</tool_use_error>",
        ),
        (
            tool_result("call-0", [{"type": "text", "text": "see"}, {"type": "image"}]),
            None,
            None,
            "see\n(image)",
        ),
        (tool_result("call-0", None), None, None, ""),
    ],
    ids=["done", "failed", "other tool", "bad arguments", "unknown", "parts", "nothing"],
)
async def test_claude_code_tells_what_came_of_a_call(event, exit_code, error, output):
    heard = Heard(ClaudeCodeHearing, bash())
    (step,) = await heard.take(event)
    assert (step["exit_code"], step["error"], step["output"]) == (exit_code, error, output)
    assert (step["name"], step["tool_call_id"], step["turn"]) == ("Bash", "call-0", 1)


async def test_claude_code_s_words_about_its_model_calls_are_left_to_the_gateway():
    quiet = [
        {"type": "assistant", "message": {"content": []}},
        {"type": "system", "subtype": "thinking_tokens"},
        {"type": "system", "subtype": "api_retry", "error_status": 500},
    ]
    assert await Heard(ClaudeCodeHearing).take(*quiet) == []


@pytest.mark.parametrize(
    "event",
    [
        {"type": "system", "subtype": "compact_boundary", "n": 1},
        {"type": "new kind"},
        {"no": "type"},
        {"type": "user", "message": "text"},
        {"type": "user", "message": {"content": ["x", {"type": "tool_result"}]}},
    ],
)
async def test_claude_code_may_say_what_is_not_known_here(event):
    await Heard(ClaudeCodeHearing).take(event, result())


@pytest.mark.parametrize(
    ("event", "answer", "stopped_by", "problem"),
    [
        (result("42"), "42", None, None),
        (result(None), "", None, None),
        (result(subtype="error_max_turns"), None, "max_turns", "it has made all its turns"),
        (
            result("API Error: no", is_error=True, stop_reason="refusal"),
            None,
            "refusal",
            "API Error: no",
        ),
        (
            result(None, subtype="error_during_execution", errors=["a", "b"]),
            None,
            None,
            "a; b",
        ),
    ],
    ids=["answer", "no text", "turns", "refusal", "errors"],
)
async def test_claude_code_says_how_it_ended(event, answer, stopped_by, problem):
    heard = Heard(ClaudeCodeHearing)
    await heard.take(event)
    report = heard.hearing.report
    assert (report.answer, report.stopped_by, report.problem) == (answer, stopped_by, problem)


# --- Codex


def completed(**item):
    return {"type": "item.completed", "item": {"id": "item_1", **item}}


def command(words, exit_code=0, output="hi\n"):
    return completed(
        type="command_execution",
        command=words,
        aggregated_output=output,
        exit_code=exit_code,
        status="completed",
    )


SCRIPT = "echo 'it''s' \"$HOME\"; exit 3"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cmd": SCRIPT}, f"/bin/bash -lc {json.dumps(SCRIPT)}"),
        ({"cmd": "ls"}, "/bin/bash -lc ls"),
        ({"command": ["bash", "-lc", "ls -l"]}, "bash -lc 'ls -l'"),
        ({"cmd": "unclosed '"}, "unclosed '"),
    ],
    ids=["quotes", "plain", "list", "odd"],
)
async def test_codex_tells_what_came_of_a_command(arguments, words):
    if "$HOME" in words:
        words = "/bin/bash -lc " + "'" + SCRIPT.replace("'", "'\\''") + "'"
    other = ToolCall(id="other", name="exec_command", arguments='{"cmd": "pwd"}')
    broken = ToolCall(id="broken", name="exec_command", arguments='{"cmd": ')
    call = ToolCall(id="call-0", name="exec_command", arguments=json.dumps(arguments))
    begun = {"type": "item.started", "item": {"id": "item_1", "type": "command_execution"}}
    (step,) = await Heard(CodexHearing, other, broken, call).take(begun, command(words, 3))
    assert (step["tool_call_id"], step["exit_code"], step["output"]) == ("call-0", 3, "hi\n")


async def test_equal_commands_are_those_of_equal_calls_in_order():
    calls = [ToolCall(id=each, name="exec_command", arguments='{"cmd": "ls"}') for each in "ab"]
    steps = await Heard(CodexHearing, *calls).take(command("bash -lc ls"), command("bash -lc ls"))
    assert [step["tool_call_id"] for step in steps] == ["a", "b"]


async def test_a_command_that_no_call_asked_for_is_written_all_the_same():
    (step,) = await Heard(CodexHearing).take(command("something else", None))
    assert (step["tool_call_id"], step["name"], step["exit_code"]) == (None, "exec_command", None)


async def test_what_codex_said_before_its_last_command_is_not_its_answer():
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "42"}}
    heard = Heard(CodexHearing)
    await heard.take(said, command("ls"), {"type": "turn.completed"})
    assert heard.hearing.report == Report(answer="")
    await heard.take(command("ls"), said, {"type": "turn.completed"})
    assert heard.hearing.report == Report(answer="42")


async def test_a_refusal_that_codex_passes_over_is_told():
    heard = Heard(CodexHearing)
    message = Message(role="assistant", content="I cannot.")
    reply = Reply(message=message, stop_reason="refusal", usage=Usage(calls=1))
    await heard.account.take_call(ServedCall(seconds=1.0, reply=reply))
    await heard.hearing.take({"type": "turn.completed"})
    assert heard.hearing.report == Report(stopped_by="refusal", problem="I cannot.")


async def test_codex_says_how_it_ended():
    heard = Heard(CodexHearing)
    steps = await heard.take(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        completed(type="reasoning", text="hm"),
        completed(type="agent_message", text="first"),
        completed(type="file_change", changes=[{"path": "x", "kind": "add"}]),
        completed(type="agent_message", text="last"),
        {"type": "turn.completed", "usage": {"input_tokens": 1}},
    )
    assert (heard.hearing.report.answer, heard.hearing.report.problem) == ("last", None)
    assert [step["item"]["type"] for step in steps] == ["file_change"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "turn.failed", "error": {"message": "no model"}},
        {"type": "error", "message": "no model"},
    ],
    ids=["turn", "error"],
)
async def test_codex_says_why_it_failed(event):
    heard = Heard(CodexHearing)
    steps = await heard.take(completed(type="agent_message", text="half"), event)
    report = heard.hearing.report
    assert (report.answer, report.problem) == (None, "no model")
    assert [step["type"] for step in steps] == ["codex"]


async def test_a_failure_that_codex_got_over_is_none():
    heard = Heard(CodexHearing)
    await heard.take(
        {"type": "error", "message": "Reconnecting... 1/3"},
        completed(type="agent_message", text="done"),
        {"type": "turn.completed"},
    )
    assert heard.hearing.report.answer == "done"


class _Gateway:
    url, key = "http://127.0.0.1:1234", "the-key"


@pytest.mark.parametrize("web", [True, False])
def test_codex_is_started_with_settings_that_are_toml(web):
    place = Place(home="/tmp/home", machine="linux-x64", program=None)
    launch = Codex(CodexParams(web=web)).launch("/opt/codex", place, _Gateway, 'o"rg/model')
    settings = dict(
        launch.argv[at + 1].split("=", 1)
        for at, word in enumerate(launch.argv)
        if word == "--config"
    )
    base_url = settings["model_providers.agentcompass.base_url"]
    assert (json.loads(base_url), settings["analytics.enabled"]) == (
        "http://127.0.0.1:1234/v1",
        "false",
    )
    assert ("web_search" in settings) is not web
    assert launch.argv[launch.argv.index("--model") + 1] == 'o"rg/model'
    assert launch.env == {"OPENAI_API_KEY": "the-key", "CODEX_HOME": "/tmp/home/config"}
