from __future__ import annotations

import json

import pytest

from agentcompass.components.base import AgentOutcome, TaskInput
from agentcompass.components.harnesses.nop import Nop
from agentcompass.components.harnesses.openai_chat import OpenAIChat
from agentcompass.components.harnesses.oracle import Oracle
from agentcompass.components.messages import Message, Reply
from agentcompass.errors import InfraError, ModelError
from agentcompass.records import Usage
from support.components import make


class Endpoint:
    """A model that gives one reply, or raises, and remembers what it was asked."""

    id = "m"

    def __init__(self, reply, protocol="openai-chat"):
        self.protocol = protocol
        self.reply = reply
        self.asked = None

    async def chat(self, messages, *, tools=(), params=None):
        assert self.protocol == "openai-chat"
        self.asked = [(message.role, message.content) for message in messages]
        return self.answer()

    async def complete(self, prompt, *, stop=(), params=None):
        assert self.protocol == "openai-completions"
        self.asked = (prompt, stop)
        return self.answer()

    def answer(self):
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class Steps(list):
    async def __call__(self, step):
        self.append(json.loads(json.dumps(step, allow_nan=False)))


def reply(text="4", *, stop_reason="stop", reasoning=None):
    return Reply(
        message=Message(role="assistant", content=text, reasoning=reasoning),
        stop_reason=stop_reason,
        usage=Usage(calls=1, input_tokens=3, output_tokens=1),
        model="m-2030",
    )


TOLD = TaskInput(messages=(Message(role="user", content="2+2?"),))
CONTINUED = TaskInput(
    messages=TOLD.messages, completion_prompt="def f():\n", completion_stop=("\ndef",)
)


async def run(harness, endpoint=None, told=TOLD):
    steps = Steps()
    return await harness.run(told, None, endpoint, steps), steps


async def test_one_call_gives_the_answer():
    endpoint = Endpoint(reply())
    outcome, _ = await run(make(OpenAIChat), endpoint)
    assert outcome == AgentOutcome(answer="4")
    assert endpoint.asked == [("user", "2+2?")]


async def test_the_trajectory_has_what_was_sent_and_what_came():
    _, steps = await run(make(OpenAIChat, system_prompt="S"), Endpoint(reply(reasoning="hm")))
    system, user, answer = steps
    assert system == {"type": "message", "role": "system", "content": "S"}
    assert user == {"type": "message", "role": "user", "content": "2+2?"}
    assert answer.pop("seconds") >= 0
    assert answer.pop("usage")["input_tokens"] == 3
    assert answer == {
        "type": "reply",
        "content": "4",
        "reasoning": "hm",
        "stop_reason": "stop",
        "model": "m-2030",
        "response_id": None,
    }


async def test_reasoning_is_no_part_of_the_answer():
    outcome, _ = await run(make(OpenAIChat), Endpoint(reply(reasoning="5? no, 4")))
    assert outcome.answer == "4"


@pytest.mark.parametrize(
    ("stop_reason", "stopped_by"),
    [
        ("stop", None),
        ("other", None),
        ("tool_calls", None),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
    ],
)
async def test_a_reply_that_was_cut_off_says_by_what(stop_reason, stopped_by):
    outcome, _ = await run(make(OpenAIChat), Endpoint(reply(stop_reason=stop_reason)))
    assert (outcome.answer, outcome.stopped_by) == ("4", stopped_by)


async def test_an_empty_reply_is_an_answer():
    outcome, _ = await run(make(OpenAIChat), Endpoint(reply("")))
    assert outcome.answer == ""


async def test_the_harness_prompt_goes_in_front_of_the_tasks_system_message():
    told = TaskInput(
        messages=(Message(role="system", content="T"), Message(role="user", content="u"))
    )
    endpoint = Endpoint(reply())
    await run(make(OpenAIChat, system_prompt="S"), endpoint, told)
    assert endpoint.asked == [("system", "S\n\nT"), ("user", "u")]


async def test_a_base_model_continues_the_completion_prompt():
    endpoint = Endpoint(reply("    return 4"), protocol="openai-completions")
    outcome, steps = await run(make(OpenAIChat), endpoint, CONTINUED)
    assert outcome == AgentOutcome(answer="    return 4", is_completion=True)
    assert endpoint.asked == ("def f():\n", ("\ndef",))
    assert [step["type"] for step in steps] == ["prompt", "reply"]


async def test_a_base_model_gets_the_prompts_text_where_there_is_no_completion_prompt():
    endpoint = Endpoint(reply(stop_reason="length"), protocol="openai-completions")
    outcome, _ = await run(make(OpenAIChat, system_prompt="S"), endpoint)
    assert outcome == AgentOutcome(answer="4", stopped_by="max_tokens")
    assert endpoint.asked == ("S\n\n2+2?", ())


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-completions"])
async def test_a_task_too_long_for_the_model_is_graded(protocol):
    endpoint = Endpoint(ModelError("too long", code="context-exceeded"), protocol)
    outcome, steps = await run(make(OpenAIChat), endpoint)
    assert outcome == AgentOutcome(answer="", stopped_by="context")
    assert steps[-1] == {"type": "error", "code": "context-exceeded", "message": "too long"}


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-completions"])
async def test_a_failing_endpoint_is_no_answer(protocol):
    with pytest.raises(ModelError, match="busy"):
        await run(make(OpenAIChat), Endpoint(ModelError("busy", code="rate-limited"), protocol))


async def test_nop_leaves_everything_as_it_is():
    assert await run(make(Nop)) == (AgentOutcome(), [])


async def test_oracle_applies_the_reference_solution():
    async def solve():
        return AgentOutcome(answer="4", is_completion=True)

    outcome, steps = await run(make(Oracle), told=TaskInput(messages=TOLD.messages, solve=solve))
    assert outcome == AgentOutcome(answer="4", is_completion=True)
    assert steps == []  # the record has the answer already


async def test_oracle_without_reference_is_no_verdict():
    with pytest.raises(InfraError) as caught:
        await run(make(Oracle))
    assert (caught.value.code, caught.value.retryable) == ("no-reference-solution", False)
