"""The order of a trajectory that is told on two ways."""

import json

import pytest

from agentcompass.components.base import ServedCall
from agentcompass.components.harnesses.installed.account import Account, Told
from agentcompass.components.harnesses.installed.running import Lines
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.components.messages import Message, Reply, ToolCall
from agentcompass.errors import ModelError
from agentcompass.records import Usage
from support.installed_agent import Steps


@pytest.fixture
def account():
    steps = Steps()
    made = Account(steps)
    made.steps = steps
    return made


def said(text, *call_ids):
    calls = tuple(ToolCall(id=each, name="bash", arguments="{}") for each in call_ids)
    message = Message(role="assistant", content=text, tool_calls=calls)
    return ServedCall(
        seconds=1.0, reply=Reply(message=message, stop_reason="stop", usage=Usage(calls=1))
    )


def came(call_id, text="out"):
    return Told(result=ToolResult(text=text), name="shell", is_of=lambda call: call.id == call_id)


def order(account):
    return [
        step["content"] if step["type"] == "reply" else step.get("tool_call_id") or step["type"]
        for step in account.steps
    ]


async def test_a_reply_waits_for_what_came_of_the_calls_before_it(account):
    await account.take_call(said("one", "a", "b"))
    await account.take_call(said("two"))
    assert order(account) == ["one"]
    await account.take_result(came("b"))
    await account.take_result(came("a"))
    assert order(account) == ["one", "b", "a", "two"]
    assert [step["turn"] for step in account.steps] == [1, 1, 1, 2]


async def test_what_came_of_a_call_waits_for_the_reply_that_asked_for_it(account):
    account.in_flight = lambda: 1
    await account.take_result(came("a"))
    assert order(account) == []
    await account.take_call(said("one", "a"))
    assert order(account) == ["one", "a"]


async def test_a_reply_does_not_wait_once_the_program_is_at_work_on_it(account):
    await account.take_call(said("one", "never told"))
    await account.take_call(said("two"))
    await account.go_on()
    assert order(account) == ["one", "two"]


async def test_no_reply_waits_for_more_than_one(account):
    await account.take_call(said("one", "never told"))
    await account.take_call(said("two"))
    await account.take_call(said("three"))
    assert order(account) == ["one", "two"]
    await account.end()
    assert order(account) == ["one", "two", "three"]
    assert (account.turns, account.usage.calls) == (3, 3)


async def test_what_nobody_asked_for_is_written_without_a_call(account):
    await account.take_result(came("x"))
    (step,) = account.steps
    assert (step["tool_call_id"], step["name"], step["output"]) == (None, "shell", "out")


async def test_what_still_waits_is_written_in_the_end(account):
    account.in_flight = lambda: 1
    await account.take_result(came("x"))
    await account.end()
    assert [step["output"] for step in account.steps] == ["out"]


async def test_a_call_that_failed_is_no_turn(account):
    await account.take_call(ServedCall(seconds=1.0, error=ModelError("no", code="server-error")))
    await account.take_call(ServedCall(seconds=0.12345))
    assert [step["type"] for step in account.steps] == ["error", "reply"]
    assert (account.turns, account.steps[1]["seconds"]) == (1, 0.123)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_come_whole_however_they_arrive(size):
    text = '{"a": "\u2028 \u00fc"}\n\n{"b": 1}\r\nrest'.encode()
    lines = Lines()
    found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
    found += lines.rest()
    assert [line.decode().strip() for line in found] == [
        '{"a": "\u2028 \u00fc"}',
        '{"b": 1}',
        "rest",
    ]
    assert json.loads(found[0]) == {"a": "\u2028 \u00fc"}
