"""The whole program against an endpoint that misbehaves: infrastructure is never counted as a wrong answer."""

import json

import pytest

from agentcompass.testing import (
    FakeEndpoint,
    chat,
    error,
    json_answer,
    no_answer,
    rate_limited,
    text,
)
from support.commandline import Program

TASKS = [{"id": f"q{n}", "prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(4)]


@pytest.fixture
def program(tmp_path):
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS))
    return Program(tmp_path)


def evaluate(program, url, *options, **model_params):
    """Run the tasks; returns exit code, summary and standard error."""
    params = {"max_retries": 2, "timeout_seconds": 4, **model_params}
    done = program(
        "run", "jsonl", "openai_chat", "m",
        "--benchmark-params", json.dumps({"path": "tasks.jsonl", "scorer": "numeric"}),
        "--model-base-url", url, "--model-api-key", "k-1234567890", "--model-params", json.dumps(params),
        "--max-retries", "0", "--format", "json", "--progress", "plain", *options,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)["summary"], done.stderr


def solve(seen):
    """Behaviour: answers what was asked, rightly."""
    number = int(seen.json["messages"][-1]["content"].split()[2])
    return chat(f"It is {2 * number}.")


def first(trouble):
    """Behaviour: trouble once for each question, then the right answer."""
    asked = set()

    def behave(seen):
        question = seen.body
        if question not in asked:
            asked.add(question)
            return trouble
        return solve(seen)

    return behave


PASSING = {
    "429 with Retry-After": rate_limited("0"),
    "429 with a date long ago": rate_limited("Sun, 29 Nov 2020 12:00:30 GMT"),
    "500": error(500, "internal error"),
    "502 in HTML": text("<html>bad gateway</html>", status=502),
    "503": error(503, "overloaded"),
    "529": error(529, "overloaded"),
    "a reset": no_answer("reset"),
    "a close without a word": no_answer("close"),
    "a reset in mid-body": chat("x" * 5000).but(send_bytes=900, then="reset"),
    "invalid JSON": text("{'not': json"),
    "no choice": json_answer({"choices": []}),
    "a JSON list": json_answer([1, 2]),
    "null": json_answer(None),
    "choices of the wrong type": json_answer({"choices": "none"}),
}


@pytest.mark.parametrize("trouble", PASSING)
def test_trouble_that_passes_costs_a_retry_and_no_point(program, trouble):
    with FakeEndpoint(first(PASSING[trouble])) as endpoint:
        code, summary, _ = evaluate(program, endpoint.base_url)
    assert code == 0
    assert summary["score"] == 1.0
    assert summary["counts"]["graded"] == 4


STAYING = {
    "rate-limited": rate_limited("0"),
    "server-error": error(500, "internal error"),
    "unauthorized": error(401, "no such key", code="invalid_api_key"),
    "quota-exceeded": error(429, "quota", code="insufficient_quota"),
    "model-not-found": error(404, "no such model", code="model_not_found"),
    "bad-request": error(400, "unknown parameter"),
    "connection-failed": no_answer("reset"),
    "malformed-response": text("<html>welcome</html>"),
}


@pytest.mark.parametrize("cause", STAYING)
def test_trouble_that_stays_is_infra_with_its_cause_and_no_score(program, cause):
    with FakeEndpoint(STAYING[cause]) as endpoint:
        code, summary, stderr = evaluate(program, endpoint.base_url)
    assert code == 1
    assert summary["coverage"] == 0
    assert summary["counts"]["infra"] == 4
    assert {failure["code"] for failure in summary["failures"]} == {cause}
    assert "Nothing was graded: run the same command again." in stderr


def test_a_dead_endpoint_is_no_zero(program):
    code, summary, stderr = evaluate(program, "http://127.0.0.1:9/v1")
    assert code == 1
    assert summary["counts"]["infra"] == 4
    assert summary["coverage"] == 0
    assert "coverage" in stderr or "graded" in stderr


def test_a_stall_in_mid_body_ends_at_the_calls_time_limit(program):
    with FakeEndpoint(chat("x" * 5000).but(send_bytes=900, then="stall")) as endpoint:
        code, summary, _ = evaluate(program, endpoint.base_url, timeout_seconds=1)
    assert code == 1
    assert summary["counts"]["infra"] == 4


def test_an_agent_whose_time_runs_out_while_the_endpoint_is_silent_is_no_zero(program):
    with FakeEndpoint(no_answer("stall")) as endpoint:
        options = ("--execution-params", '{"run_timeout_seconds": 1}')
        code, summary, _ = evaluate(program, endpoint.base_url, *options, timeout_seconds=60)
    assert code == 1
    assert summary["counts"]["infra"] == 4


def test_retry_after_of_an_hour_fails_now_and_says_what_was_asked(program):
    with FakeEndpoint(rate_limited("3600")) as endpoint:
        code, summary, _ = evaluate(program, endpoint.base_url)
    assert code == 1
    assert "3600" in summary["failures"][0]["message"]


@pytest.mark.parametrize(
    "content",
    [
        "x" * 2_000_000 + " 4",
        "broken \ud83d emoji 5",
        "\x1b[2J\x1b[31m 6",
        "\u2028\u0085 7",
        "",
        None,
    ],
    ids=["2 MB", "lone surrogate", "terminal escapes", "line separators", "empty", "null"],
)
def test_odd_content_is_graded_and_kept(program, content):
    with FakeEndpoint(chat(content)) as endpoint:
        code, summary, stderr = evaluate(program, endpoint.base_url)
    assert code == 0
    assert summary["counts"]["graded"] == 4
    assert "\x1b[2J" not in stderr


def test_one_task_of_four_without_an_answer_keeps_the_other_three(program):
    def behave(seen):
        return error(500, "boom") if b"What is 3 + 3" in seen.body else solve(seen)

    with FakeEndpoint(behave) as endpoint:
        code, summary, _ = evaluate(program, endpoint.base_url)
        assert code == 1
        assert summary["coverage"] == 0.75
        code, summary, _ = evaluate(program, endpoint.base_url, "--min-coverage", "0.7")
        assert code == 0


def test_streamed_answers_count_the_same(program):
    from agentcompass.testing import stream

    def behave(seen):
        assert seen.json["stream"] is True
        number = int(seen.json["messages"][-1]["content"].split()[2])
        return stream("It is ", str(2 * number), ".")

    with FakeEndpoint(behave) as endpoint:
        code, summary, _ = evaluate(program, endpoint.base_url, stream=True, temperature=0)
        assert endpoint.requests[0].json["temperature"] == 0
    assert (code, summary["score"]) == (0, 1.0)
    assert summary["usage"]["calls"] == 4
    assert summary["usage"]["input_tokens"] == 48
