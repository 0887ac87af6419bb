"""Exchanges kept in a file, and a model that answers from it."""

import json
from pathlib import Path

import pytest

import agentcompass
from agentcompass import ConfigurationError, EvaluationFailedError
from agentcompass.testing import (
    FakeEndpoint,
    chat,
    error,
    message,
    rate_limited,
    response,
    streamed,
)

TASKS = 6


@pytest.fixture
def place(tmp_path):
    lines = [json.dumps({"id": f"t{n}", "prompt": f"{n}?", "answer": str(n)}) for n in range(TASKS)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    return tmp_path


def evaluate(place, model="m", **options):
    arguments = {
        "benchmark": "jsonl",
        "harness": "openai_chat",
        "model": model,
        "benchmark_params": {"path": str(place / "tasks.jsonl"), **options.pop("selection", {})},
        "results_dir": place / "results",
        "progress": "none",
        "max_retries": 0,
    }
    return agentcompass.run_evaluation(**{**arguments, **options})


def answer(seen):
    text = seen.json["messages"][-1]["content"].rstrip("?")
    return chat("wrong" if text == "3" else text)


def recorded(place, behaviour=answer, **options):
    with FakeEndpoint(behaviour) as endpoint:
        return evaluate(
            place,
            model_base_url=endpoint.base_url,
            record=place / "exchanges.jsonl",
            **{"model_params": {"temperature": 0}, **options},
        )


def replayed(place, **options):
    options = {"model_params": {"temperature": 0}, **options}
    return evaluate(place, f"replay:{place / 'exchanges.jsonl'}", **options)


def exchanges(place):
    return [json.loads(line) for line in (place / "exchanges.jsonl").read_text().splitlines()]


def failure(result):
    text = Path(result["paths"]["attempts"]).read_text()
    return [json.loads(line)["failure"] for line in text.splitlines()]


def endings(result):
    lines = map(json.loads, Path(result["paths"]["attempts"]).read_text().splitlines())
    kept = ("metrics", "answer", "usage", "stopped_by")
    return {line["task_id"]: {name: line[name] for name in kept} for line in lines}


def test_a_replay_gives_the_same_answers_scores_and_usage(place):
    first = recorded(place)
    again = replayed(place)
    assert first["summary"]["score"] == again["summary"]["score"] == pytest.approx(5 / 6)
    assert endings(first) == endings(again)


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [
        ("openai-responses", response),
        ("anthropic", message),
        ("openai-chat", lambda text: streamed(chat(text))),
        ("anthropic", lambda text: streamed(message(text))),
    ],
)
def test_every_protocol_streamed_or_not_is_replayed(place, protocol, reply):
    first = recorded(place, lambda _seen: reply("1"), model_api_protocol=protocol)
    assert {each["protocol"] for each in exchanges(place)} == {protocol}
    assert endings(replayed(place)) == endings(first)


def test_what_was_tried_again_is_recorded_once_with_its_end(place):
    def refuse_first(seen):
        return rate_limited("0") if seen.number == 0 else answer(seen)

    recorded(place, refuse_first, selection={"limit": 1})
    assert len(exchanges(place)) == 1
    assert replayed(place, selection={"limit": 1})["summary"]["score"] == 1.0


def test_an_error_that_another_try_would_not_change_is_replayed(place):
    with pytest.raises(EvaluationFailedError) as first:
        recorded(place, error(400, "no such thing"), selection={"limit": 1})
    with pytest.raises(EvaluationFailedError) as again:
        replayed(place, selection={"limit": 1})
    assert failure(again.value.result) == failure(first.value.result)
    assert failure(again.value.result)[0]["code"] == "bad-request"


def test_a_request_that_was_not_recorded_is_an_error_with_the_nearest_and_what_differs(place):
    recorded(place)
    with pytest.raises(EvaluationFailedError) as caught:
        replayed(place, model_params={"temperature": 1, "top_p": 0.5}, selection={"limit": 1})
    (told,) = failure(caught.value.result)
    assert (told["code"], told["retryable"]) == ("not-recorded", False)
    assert "temperature: 0 -> 1" in told["message"]
    assert "top_p: (absent) -> 0.5" in told["message"]
    assert "messages" not in told["message"]


def test_a_long_text_is_shown_where_it_differs(place):
    text = "x" * 5000
    (place / "tasks.jsonl").write_text(json.dumps({"id": "a", "prompt": text + "1", "answer": "?"}))
    recorded(place, chat("?"))
    (place / "tasks.jsonl").write_text(json.dumps({"id": "a", "prompt": text + "2", "answer": "?"}))
    with pytest.raises(EvaluationFailedError) as caught:
        replayed(place)
    (told,) = failure(caught.value.result)
    assert (
        "messages[0].content: …'xxxxxxxxxxxxxxxxxxxx1' -> …'xxxxxxxxxxxxxxxxxxxx2'"
        in told["message"]
    )


def test_the_same_request_asked_again_gets_the_next_answer_and_at_last_the_last_one(place):
    recorded(
        place, lambda seen: chat(str(seen.number)), k=2, selection={"limit": 1}, task_concurrency=1
    )
    result = replayed(place, k=3, selection={"limit": 1}, task_concurrency=1)
    lines = map(json.loads, Path(result["paths"]["attempts"]).read_text().splitlines())
    assert sorted(line["answer"] for line in lines) == ["0", "1", "1"]


def test_a_recording_is_added_to(place):
    recorded(place, selection={"sample_ids": ["t0"]})
    recorded(place, selection={"sample_ids": ["t1"]})
    assert replayed(place, selection={"limit": 2})["summary"]["score"] == 1.0


def test_another_recording_is_another_model_for_reuse(place):
    recorded(place, selection={"limit": 1})
    one = replayed(place, selection={"limit": 1})
    recorded(place, selection={"limit": 2})
    two = replayed(place, selection={"limit": 1})
    assert one["metadata"]["fingerprint"] != two["metadata"]["fingerprint"]


def test_neither_key_nor_other_secrets_are_written(place):
    def leak(seen):
        return chat(f"you sent {seen.headers['authorization']}")

    recorded(place, leak, model_api_key="sk-very-secret-0123456789", selection={"limit": 1})
    text = (place / "exchanges.jsonl").read_text()
    assert "very-secret" not in text
    assert "you sent" in text


def test_a_torn_last_line_is_dropped(place):
    recorded(place, selection={"limit": 1})
    with (place / "exchanges.jsonl").open("a") as file:
        file.write('{"recording": 1, "prot')
    assert replayed(place, selection={"limit": 1})["summary"]["score"] == 1.0


def test_a_recording_goes_on_after_a_torn_line(place):
    recorded(place, selection={"sample_ids": ["t0"]})
    with (place / "exchanges.jsonl").open("a") as file:
        file.write('{"recording": 1, "prot' + "x" * 100_000)
    recorded(place, selection={"sample_ids": ["t1"]})
    assert len(exchanges(place)) == 2
    assert replayed(place, selection={"limit": 2})["summary"]["score"] == 1.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        ("", "holds no model exchange"),
        ("hello\n", "not a recording"),
        ("[1]\n", "not a recording"),
        ('{"recording": 2}\n', "use a newer agentcompass"),
        ('{"recording": 1, "protocol": 3}\n', "damaged"),
        ('{"recording": 1, "protocol": "x", "host": "", "model": "m", "request": {}}\n', "damaged"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_before_anything_runs(place, content, words):
    if content is not None:
        (place / "exchanges.jsonl").write_text(content)
    with pytest.raises(ConfigurationError, match=words):
        replayed(place)
    assert not (place / "results").exists()


def test_a_recording_of_several_models_is_refused_by_their_names(place):
    recorded(place, selection={"limit": 1})
    recorded(place, selection={"limit": 1}, model="other")
    with pytest.raises(ConfigurationError, match="more than one model: m, other"):
        replayed(place, selection={"limit": 1})


@pytest.mark.parametrize("kind", ["directory", "no folder", "other file"])
def test_a_place_where_nothing_can_be_recorded_is_refused_before_a_call(place, kind):
    target = place / "there"
    if kind == "directory":
        target.mkdir()
    elif kind == "other file":
        target.write_text("my diary\n")
    else:
        target = place / "none" / "there"
    with FakeEndpoint(answer) as endpoint:
        with pytest.raises(ConfigurationError, match="record"):
            evaluate(place, model_base_url=endpoint.base_url, record=target)
        assert endpoint.requests == ()
    assert kind != "other file" or target.read_text() == "my diary\n"


def test_a_harness_without_the_recorded_protocol_is_refused(place):
    recorded(place, lambda _seen: message("1"), model_api_protocol="anthropic")
    text = (place / "exchanges.jsonl").read_text()
    (place / "exchanges.jsonl").write_text(text.replace('"anthropic"', '"other"'))
    with pytest.raises(ConfigurationError, match="protocol"):
        replayed(place)
