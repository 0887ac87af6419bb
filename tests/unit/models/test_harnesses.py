"""The built-in harnesses by every protocol that holds conversations, over HTTP and with real sandboxes."""

import json

import pytest

from agentcompass.components.base import TaskInput
from agentcompass.components.harnesses.openai_chat import OpenAIChat
from agentcompass.components.harnesses.tool_loop.loop import SYSTEM_PROMPT, ToolLoop
from agentcompass.components.messages import Message
from agentcompass.testing import (
    FakeEndpoint,
    anthropic_error,
    chat,
    dialects,
    error,
    json_answer,
    message,
    response,
    streamed,
)
from agentcompass.testing.dialects import choices
from support.components import make, open_session
from support.opened import Opened

TOLD = TaskInput(messages=(Message(role="user", content="What is 6 * 7?"),))
FIRST = [("bash", {"command": "echo $((6 * 7)) > a"}), ("bash", {"command": "cat a"})]
LAST = [("submit", {"answer": "42"})]
PROTOCOLS = ["openai-chat", "openai-responses", "anthropic"]
FORMS = pytest.mark.parametrize("form", [lambda whole: whole, streamed], ids=["whole", "streamed"])


def calls(protocol, tool_calls, *, thinking=None):
    if protocol == "anthropic":
        return message("", tool_calls=tool_calls, thinking=thinking)
    texts = [(name, json.dumps(arguments)) for name, arguments in tool_calls]
    if protocol == "openai-responses":
        return response("", tool_calls=texts, reasoning=thinking)
    return chat(None, tool_calls=texts, reasoning=thinking)


def text(protocol, words):
    return {"anthropic": message, "openai-responses": response, "openai-chat": chat}[protocol](
        words
    )


async def attempt(harness, protocol, reactions, tmp_path, told=TOLD):
    steps = []

    async def emit(step):
        steps.append(json.loads(json.dumps(step)))

    with FakeEndpoint(list(reactions)) as endpoint:
        async with (
            Opened(endpoint, protocols=type(harness).protocols, api_protocol=(protocol,)) as opened,
            open_session(tmp_path, {"root": str(tmp_path)}) as session,
        ):
            outcome = await harness.run(told, session, opened.model, emit)
            assert opened.model.protocol == protocol
    return outcome, steps, [seen.json for seen in endpoint.requests]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@FORMS
async def test_a_question_is_answered(protocol, form, tmp_path):
    reactions = [form(text(protocol, "42"))]
    outcome, steps, _ = await attempt(make(OpenAIChat), protocol, reactions, tmp_path)
    assert (outcome.answer, outcome.stopped_by) == ("42", None)
    assert [step["type"] for step in steps] == ["message", "reply"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@FORMS
async def test_an_agent_works_by_parallel_calls_and_its_thoughts_go_with_it(
    protocol, form, tmp_path
):
    reactions = [form(calls(protocol, FIRST, thinking="hm")), form(calls(protocol, LAST))]
    outcome, steps, asked = await attempt(make(ToolLoop), protocol, reactions, tmp_path)
    assert (outcome.answer, outcome.stopped_by) == ("42", None)
    outputs = [step["output"] for step in steps if step["type"] == "tool"]
    assert outputs[:2] == ["exit code 0\n(no output)", "exit code 0\n42\n"]
    replies = [step for step in steps if step["type"] == "reply"]
    assert [reply["reasoning"] for reply in replies] == ["hm", None]
    assert "opaque" not in json.dumps(steps)
    again = json.dumps(asked[1])
    assert SYSTEM_PROMPT[:40] in again
    assert "exit code 0\\n42\\n" in again
    thought = {"anthropic": '"signature": "signed"', "openai-responses": '"opaque"'}
    assert thought.get(protocol, '"reasoning_content": "hm"') in again


REFUSALS = {
    "openai-chat": json_answer(
        choices(
            "chat.completion",
            {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"},
            None,
        )
    ),
    "openai-responses": json_answer(dialects.response([dialects.output_refusal("No.")])),
    "anthropic": message("No.", stop_reason="refusal"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_refusal_is_an_answer_that_says_so(protocol, tmp_path):
    outcome, _, _ = await attempt(make(OpenAIChat), protocol, [REFUSALS[protocol]], tmp_path)
    assert (outcome.answer, outcome.stopped_by) == ("No.", "refusal")


async def test_a_conversation_that_was_shortened_goes_on_without_thoughts_that_do_not_fit(tmp_path):
    """The endpoint says: too long; then, of the shortened conversation: your thinking belongs to another one."""
    long_output = [("bash", {"command": "seq 1 500"})]
    stale = "`thinking` block: The block is bound to a different conversation."
    reactions = [
        calls("anthropic", long_output, thinking="hm"),
        calls("anthropic", [("bash", {"command": "true"})], thinking="so"),
        anthropic_error(400, "prompt is too long: 9 > 4", type="invalid_request_error"),
        anthropic_error(400, f"messages.1: {stale}", type="invalid_request_error"),
        calls("anthropic", LAST),
    ]
    outcome, steps, asked = await attempt(make(ToolLoop), "anthropic", reactions, tmp_path)
    assert (outcome.answer, outcome.stopped_by) == ("42", None)
    assert [step["type"] for step in steps if step["type"] in {"error", "elided"}] == [
        "error",
        "elided",
    ]
    thoughts = [json.dumps(body).count('"type": "thinking"') for body in asked]
    assert thoughts == [0, 1, 2, 2, 0]
    assert "left out to make room" in json.dumps(asked[4])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_task_too_long_for_the_model_is_graded(protocol, tmp_path):
    words = "prompt is too long: 9 tokens > 4 maximum"
    too_long = {
        "anthropic": anthropic_error(400, words, type="invalid_request_error"),
    }.get(protocol, error(400, words, code="context_length_exceeded"))
    for harness in (OpenAIChat, ToolLoop):
        outcome, _, _ = await attempt(make(harness), protocol, [too_long], tmp_path)
        assert outcome.stopped_by == "context"
