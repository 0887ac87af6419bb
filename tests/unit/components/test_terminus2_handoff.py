"""`terminus2` with conversations that become too long: handed over before that, after that, and when even that is too much."""

from __future__ import annotations

import pytest

from agentcompass.components.harnesses.terminus2 import prompts
from agentcompass.errors import ModelError
from agentcompass.testing import chat, error
from support.terminus import DONE, TOO_LONG, attempt, plan, workspace

WORK = plan(("true\n", 0))


def used(tokens, text=WORK):
    """A reply for which so much context was used."""
    return chat(text, usage={"prompt_tokens": tokens, "completion_tokens": 10})


class Turns:
    """A model that gives replies in order, and for ever the last one; and counts."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.count = 0

    def __call__(self, _request):
        reply = self.replies[min(self.count, len(self.replies) - 1)]
        self.count += 1
        return chat(reply) if isinstance(reply, str) else reply


async def let(tmp_path, *replies, **params):
    async with workspace(tmp_path) as session:
        return await attempt(session, tmp_path, Turns(*replies), **params)


def roles(body):
    return "".join(message["role"][0] for message in body["messages"])


def parts(done):
    return [step["part"] for step in done.of("summary")]


HANDED_OVER = ("The account.", "The questions?", "The answers.")


async def test_a_conversation_is_handed_over_before_it_is_too_long(tmp_path):
    done = await let(tmp_path, used(500), used(13_000), *HANDED_OVER, DONE, context_tokens=20_000)
    first, second, summary, questions, answers, resumed, _confirmed = done.asked
    assert [roles(body) for body in done.asked] == [
        "u",
        "uau",
        "uauau",
        "u",
        "uauauau",
        "uau",
        "uauau",
    ]
    assert summary["messages"][:-2] == second["messages"]
    assert summary["messages"][-1]["content"] == prompts.SUMMARY
    begin = first["messages"][0]["content"].partition("\n\nThe terminal now:")[0]
    asked = questions["messages"][0]["content"]
    assert asked.startswith(begin)
    assert "The account." in asked
    assert answers["messages"][:-2] == summary["messages"]
    assert answers["messages"][-2]["content"] == "The account."
    assert "The questions?" in answers["messages"][-1]["content"]
    assert resumed["messages"][0]["content"] == asked
    assert resumed["messages"][1]["content"] == "The questions?"
    assert "The answers." in resumed["messages"][2]["content"]
    assert "terminal" in resumed["messages"][2]["content"].rpartition("\n\n")[2]
    assert parts(done) == ["summary", "questions", "answers"]
    assert done.of("handoff")[0]["reason"] == "proactive"
    assert done.outcome.details["handoffs"] == 1


async def test_with_enough_room_nothing_is_handed_over(tmp_path):
    done = await let(tmp_path, used(500), used(11_000), DONE, context_tokens=20_000)
    assert parts(done) == []


async def test_the_threshold_decides(tmp_path):
    params = {"context_tokens": 20_000, "proactive_summarization_threshold": 15_000}
    done = await let(tmp_path, used(500), used(6000), *HANDED_OVER, DONE, **params)
    assert parts(done) == ["summary", "questions", "answers"]


async def test_a_conversation_that_the_endpoint_calls_too_long_is_unwound_and_handed_over(tmp_path):
    big = used(90_000, plan(("true\n", 0), analysis="x" * 40_000))
    done = await let(tmp_path, used(500), big, big, TOO_LONG, *HANDED_OVER, DONE)
    refused, summary = done.asked[3], done.asked[4]
    assert roles(refused) == "uauauau"
    assert roles(summary) == "uauau"
    assert summary["messages"][:-1] == refused["messages"][:4]
    assert [step["code"] for step in done.of("error")] == ["context-exceeded"]
    assert done.of("handoff")[0]["reason"] == "context-exceeded"
    assert done.outcome.stopped_by is None


async def test_an_account_that_would_be_too_long_is_made_of_what_the_terminal_shows(tmp_path):
    done = await let(tmp_path, used(500), WORK, TOO_LONG, TOO_LONG, "Short.", DONE)
    assert parts(done) == ["summary", "short-summary"]
    resumed = done.asked[5]
    assert roles(resumed) == "u"
    assert "What is known about it:\nShort.\n" in resumed["messages"][0]["content"]
    assert done.outcome.stopped_by is None


async def test_without_any_account_the_work_goes_on_from_what_the_terminal_shows(tmp_path):
    done = await let(tmp_path, used(500), WORK, *[TOO_LONG] * 3, DONE)
    assert "There is none: look for yourself" in done.told[5]
    assert done.outcome.stopped_by is None


async def test_a_conversation_that_is_too_long_again_at_once_loses_its_history(tmp_path):
    done = await let(tmp_path, used(500), WORK, TOO_LONG, *HANDED_OVER, TOO_LONG, DONE)
    assert [len(step["messages"]) for step in done.of("handoff")] == [3, 1]
    assert "There is none: look for yourself" in done.told[7]


async def test_what_is_too_long_whatever_is_done_ends_the_attempt(tmp_path):
    done = await let(tmp_path, used(500), WORK, TOO_LONG)
    assert (done.outcome.stopped_by, done.outcome.answer) == ("context", None)


async def test_a_task_that_is_too_long_ends_the_attempt(tmp_path):
    done = await let(tmp_path, TOO_LONG)
    assert done.outcome.stopped_by == "context"
    assert len(done.asked) == 1


async def test_nothing_is_handed_over_where_that_is_not_wanted(tmp_path):
    params = {"enable_summarize": False, "context_tokens": 20_000}
    done = await let(tmp_path, used(500), used(15_000), TOO_LONG, **params)
    assert done.outcome.stopped_by == "context"
    assert parts(done) == []


async def test_the_question_whether_the_task_is_complete_survives_a_handoff(tmp_path):
    done = await let(
        tmp_path,
        used(500),
        used(500),
        used(13_000, DONE),
        *HANDED_OVER,
        DONE,
        context_tokens=20_000,
    )
    assert "You say that the task is complete" in done.told[-1]
    assert done.outcome.answer == "All is done."
    assert len(done.of("reply")) == 4


async def test_an_empty_account_is_none(tmp_path):
    done = await let(tmp_path, used(500), used(13_000), "  ", "Short.", DONE, context_tokens=20_000)
    assert parts(done) == ["summary", "short-summary"]


async def test_calls_of_a_handoff_count_as_usage_and_not_as_turns(tmp_path):
    told = {"prompt_tokens": 1000, "completion_tokens": 100}
    written = [chat(text, usage=told) for text in HANDED_OVER]
    done = await let(
        tmp_path, used(500), used(13_000), *written, used(10, DONE), context_tokens=20_000
    )
    final = done.of("final")[0]
    assert (final["turns"], final["usage"]["calls"]) == (4, 7)
    assert final["usage"]["input_tokens"] == 500 + 13_000 + 3000 + 20


async def test_an_endpoint_that_fails_in_a_handoff_is_no_verdict(tmp_path):
    with pytest.raises(ModelError) as caught:
        await let(tmp_path, used(500), used(13_000), error(401, "no"), context_tokens=20_000)
    assert caught.value.code == "unauthorized"
