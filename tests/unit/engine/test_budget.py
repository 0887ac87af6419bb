"""What the model calls of a run may use: a limit is never exceeded by more than what was in flight."""

import json
import random
import threading

import pytest

import agentcompass
from agentcompass import ConfigurationError, EvaluationFailedError
from agentcompass.engine.budget import AttemptAccount, Budget, Purse
from agentcompass.records import Usage
from agentcompass.testing import FakeEndpoint, chat

PRICE = "prices:\n  m: {input: 1000000, output: 0}\n"
"""A dollar for each token of input."""


def dollars(amount):
    return Usage(calls=1, input_tokens=round(amount), cost_usd=float(amount))


UNKNOWN = Usage(calls=1, unmetered_calls=1, cost_usd=None)


# --- one limit


def finished(purse, request, *amounts):
    for amount in amounts:
        who = object()
        purse.begin(who, request)
        purse.charge(who, dollars(amount))
        purse.end(who)


def started(purse, request, used=0):
    who = object()
    purse.begin(who, request)
    purse.charge(who, dollars(used))
    return who


def test_the_first_attempts_start_since_nothing_is_known():
    purse = Purse("cost", 1.0)
    assert purse.fits("a")
    started(purse, "a")
    assert purse.fits("a")


def test_an_attempt_fits_as_long_as_the_mean_of_the_finished_ones_does():
    purse = Purse("cost", 10.0)
    finished(purse, "a", 2, 4)
    assert purse.fits("a")
    finished(purse, "a", 2)
    assert not purse.fits("a")


def test_what_running_ones_are_still_expected_to_use_counts():
    purse = Purse("cost", 10.0)
    finished(purse, "a", 3)
    started(purse, "a", 1)
    assert purse.fits("a")
    started(purse, "a", 0)
    assert not purse.fits("a")


def test_one_that_has_used_more_than_expected_is_not_counted_twice():
    purse = Purse("cost", 10.0)
    finished(purse, "a", 1)
    started(purse, "a", 8)
    assert not purse.fits("b") or purse.used == 9


def test_requests_have_expectations_of_their_own():
    purse = Purse("cost", 10.0)
    finished(purse, "dear", 6)
    finished(purse, "cheap", 1)
    assert (purse.fits("dear"), purse.fits("cheap")) == (False, True)


def test_before_one_has_finished_the_running_ones_tell_what_to_expect():
    purse = Purse("cost", 10.0)
    started(purse, "a", 6)
    assert not purse.fits("a")


def test_a_call_that_told_nothing_counts_as_the_mean_of_the_others():
    purse = Purse("cost", 10.0)
    who = started(purse, "a", 3)
    purse.charge(who, UNKNOWN)
    assert purse.used == 6.0


def test_a_request_of_which_no_call_has_told_what_it_used_does_not_fit_and_others_do():
    purse = Purse("tokens", 10)
    who = object()
    purse.begin(who, "a")
    purse.charge(who, UNKNOWN)
    assert (purse.fits("a"), purse.fits("b")) == (False, True)


async def test_an_attempt_whose_calls_tell_nothing_is_not_stopped_by_its_own_limit():
    account = AttemptAccount(Budget(None, None), "a", {"cost": None, "tokens": 10})
    account.charge(UNKNOWN)
    account.check()
    assert not account.is_spent


def test_a_limit_that_is_reached_admits_nobody_however_little_they_use():
    purse = Purse("cost", 3.0)
    finished(purse, "a", 3)
    finished(purse, "free", 0)
    assert not purse.fits("free")


def test_without_limits_everything_fits():
    assert Budget(None, None).fits("a")


async def test_an_attempt_is_stopped_by_its_own_limit_when_it_wants_to_go_on():
    account = AttemptAccount(Budget(None, None), "a", {"cost": None, "tokens": 10})
    account.check()
    account.charge(Usage(calls=1, input_tokens=11, cost_usd=None))
    assert not account.is_spent
    with pytest.raises(agentcompass.ModelError, match="has used the 10 tokens that it may"):
        account.check()
    assert account.is_spent


# --- whole runs


@pytest.fixture
def place(tmp_path):
    lines = [json.dumps({"id": f"t{n}", "prompt": "?", "answer": "yes"}) for n in range(200)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    (tmp_path / "prices.yaml").write_text(PRICE)
    return tmp_path


def evaluate(place, endpoint, **options):
    arguments = {
        "benchmark": "jsonl",
        "harness": "openai_chat",
        "model": "m",
        "benchmark_params": {"path": str(place / "tasks.jsonl"), **options.pop("selection", {})},
        "model_base_url": endpoint.base_url,
        "config_path": place / "prices.yaml",
        "results_dir": place / "results",
        "progress": "none",
        "task_concurrency": 8,
        "enable_analysis": False,
    }
    return agentcompass.run_evaluation(**{**arguments, **options})


def costing(costs):
    """An endpoint whose calls cost what an iterator says."""
    lock = threading.Lock()

    def react(_seen):
        with lock:
            cost = next(costs)
        usage = {"prompt_tokens": cost, "completion_tokens": 0, "total_tokens": cost}
        return chat("yes", usage=usage)

    return FakeEndpoint(react)


def records(result):
    with open(result["paths"]["attempts"]) as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("seed", range(3))
def test_no_more_is_spent_than_the_limit_and_what_was_in_flight(place, seed):
    chance = random.Random(seed)
    costs = [chance.choice([1, 2, 3, 5, 40]) for _ in range(200)]
    with costing(iter(costs)) as endpoint:
        result = evaluate(place, endpoint, max_cost=300.0, min_coverage=0.01)
    counts, spent = result["summary"]["counts"], result["summary"]["usage"]["cost_usd"]
    assert counts["graded"] + counts["skipped"] == 200
    assert counts["skipped"] > 0
    assert spent == sum(costs[: counts["graded"]])
    assert 300 - 2 * 40 <= spent <= 300 + 8 * 40


def test_what_was_left_out_and_what_the_score_can_be_is_said(place):
    with costing(iter([1] * 200)) as endpoint, pytest.raises(EvaluationFailedError) as caught:
        evaluate(place, endpoint, max_cost=100.0)
    assert "the budget was enough for 50.0% of the attempts" in str(caught.value)
    assert "--reuse" in str(caught.value)
    assert "--min-coverage 0.5" in str(caught.value)
    result = caught.value.result
    score = result["metrics"]["scores"][result["metrics"]["primary"]]
    assert score["graded_value"] == 1.0
    assert score["bounds"] == [0.5, 1.0]
    (group,) = result["summary"]["failures"]
    assert (group["code"], group["count"], group["verdict"]) == ("over-budget", 100, "skipped")
    assert group["message"] == "$100 of $100 are used: another attempt does not fit"


def test_tokens_can_be_limited_where_no_price_is_known(place):
    (place / "prices.yaml").write_text("{}")
    with costing(iter([10] * 200)) as endpoint:
        result = evaluate(place, endpoint, max_tokens=500, min_coverage=0)
    assert result["summary"]["counts"]["graded"] == 50


def test_the_rest_is_made_by_a_reuse_with_a_budget_of_its_own(place):
    with costing(iter([1] * 200)) as endpoint:
        evaluate(place, endpoint, max_cost=100.0, min_coverage=0)
        again = evaluate(place, endpoint, max_cost=100.0, reuse=True)
    assert again["summary"]["counts"]["graded"] == 200


def test_a_limit_of_costs_needs_a_price_and_nothing_is_begun_without(place):
    (place / "prices.yaml").write_text("{}")
    with costing(iter([1] * 200)) as endpoint:
        with pytest.raises(ConfigurationError, match="needs the price of the model 'm'"):
            evaluate(place, endpoint, max_cost=1.0)
        assert endpoint.requests == ()
    assert not (place / "results").exists()


def test_one_request_that_does_not_fit_leaves_the_rest_to_the_others(place):
    def react(seen):
        cost = 60 if seen.json["model"] == "dear" else 1
        return chat("yes", usage={"prompt_tokens": cost, "completion_tokens": 0})

    (place / "prices.yaml").write_text('prices:\n  "*": {input: 1000000, output: 0}\n')
    with FakeEndpoint(react) as endpoint:
        path = str(place / "tasks.jsonl")
        spec = agentcompass.OrchestrationSpec(
            defaults=agentcompass.OrchestrationDefaults(
                benchmark={"id": "jsonl", "path": path, "limit": 20},
                harness={"id": "openai_chat"},
                model={"base_url": endpoint.base_url},
                execution={"min_coverage": 0.0, "enable_analysis": False},
            ),
            requests=[
                agentcompass.RunRequestSpec(name="dear", model={"id": "dear"}),
                agentcompass.RunRequestSpec(name="cheap", model={"id": "cheap"}),
            ],
        )
        done = agentcompass.launch(
            spec,
            max_cost=150.0,
            task_concurrency=1,
            results_dir=place / "results",
            config_path=place / "prices.yaml",
            progress="none",
        )
    graded = {
        name: request.result["summary"]["counts"]["graded"]
        for name, request in done.requests.items()
    }
    assert graded == {"dear": 2, "cheap": 20}


@pytest.mark.parametrize("strategy", ["avg", "pass"])
def test_further_attempts_at_a_task_are_skipped_like_all_others(place, strategy):
    with costing(iter([1] * 800)) as endpoint:
        result = evaluate(
            place,
            endpoint,
            max_cost=10.0,
            min_coverage=0,
            k=2,
            attempt_strategy=strategy,
            selection={"limit": 20},
        )
    counts = result["summary"]["counts"]
    assert (counts["graded"], counts["planned"]) == (10, 40)
    assert counts["skipped"] == 30


def test_an_agent_that_has_used_its_own_budget_is_graded_on_what_it_left(place):
    call = ("bash", '{"command": "echo more"}')
    usage = {"prompt_tokens": 10, "completion_tokens": 0}

    with FakeEndpoint(lambda _seen: chat(None, tool_calls=[call], usage=usage)) as endpoint:
        result = evaluate(
            place,
            endpoint,
            harness="tool_loop",
            selection={"limit": 1},
            execution_params={"attempt_max_tokens": 25},
        )
    (record,) = records(result)
    assert (record["verdict"], record["stopped_by"]) == ("graded", "budget")
    assert record["usage"]["input_tokens"] == 30


def test_without_a_model_nothing_is_limited(place):
    with costing(iter([])) as endpoint:
        result = evaluate(
            place, endpoint, benchmark="humaneval", harness="oracle", max_tokens=1,
            benchmark_params={"limit": 3},
        )  # fmt: skip
    assert result["summary"]["counts"]["graded"] == 3
