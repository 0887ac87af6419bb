"""What was resolved, as a file that says the same and tells no secret."""

import json

from agentcompass.records import SCHEMA_VERSION
from agentcompass.spec.dump import resolved_as_dict
from support.configured import SECRETIVE
from support.requests import component, orchestration, request
from support.resolving import STAMP, launch, run

SECRETS = {"KEY": "sk-from-env", "HOST_PASSWORD": "pa55word"}


def _single(tmp_path):
    return run(
        tmp_path,
        SECRETS,
        harness=SECRETIVE,
        harness_params={"api_key": "clear-key", "headers": {"h": "${KEY} x"}, "session_token": "${KEY}"},
        model_base_url="http://u:${HOST_PASSWORD}@h/v1",
        model_api_key="${KEY}",
        model_params={"stop": ["$${HOME}"], "headers": {"Authorization": "Bearer ${KEY}"}},
        run_name="pa55word",
        reuse=True,
    )  # fmt: skip


def test_no_secret_value_is_in_it(tmp_path):
    text = json.dumps(resolved_as_dict(_single(tmp_path)))
    for value in ("sk-from-env", "pa55word", "clear-key"):
        assert value not in text


def test_references_stay_references_and_literals_are_escaped(tmp_path):
    (request,) = resolved_as_dict(_single(tmp_path))["requests"]
    assert request["model"]["api_key"] == "${KEY}"
    assert request["model"]["base_url"] == "http://u:${HOST_PASSWORD}@h/v1"
    assert request["model"]["params"]["stop"] == ["$${HOME}"]
    assert request["model"]["params"]["headers"] == {"Authorization": "Bearer ${KEY}"}
    assert request["harness"]["session_token"] == "${KEY}"


def test_it_is_strict_json_in_the_shape_of_an_orchestration(tmp_path):
    plain = resolved_as_dict(_single(tmp_path))
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["version"] == SCHEMA_VERSION == 1
    assert plain["x-id"] == STAMP
    assert plain["requests"][0]["runtime"] == {"reuse": True}
    assert "run_id" not in plain["requests"][0]["output"]


def test_a_given_run_id_is_kept(tmp_path):
    plain = resolved_as_dict(run(tmp_path, run_id="mine"))
    assert plain["requests"][0]["output"] == {"run_id": "mine"}


def test_what_was_made_without_resolving_is_written_from_its_values(tmp_path):
    parts = (component("benchmark", "humaneval"), component("harness", "nop"))
    made = orchestration(tmp_path, request(*parts, k=3), log_level="ERROR")
    plain = resolved_as_dict(made)
    assert plain["runtime"]["log_level"] == "ERROR"
    assert plain["requests"][0]["execution"]["k"] == 3
    (tmp_path / "made.json").write_text(json.dumps(plain))
    again = launch(tmp_path / "made.json", tmp_path)
    assert again.runtime == made.runtime
    assert again.requests[0].execution == made.requests[0].execution


def test_resolving_it_again_gives_the_same(tmp_path):
    first = run(tmp_path, SECRETS, model_api_key="${KEY}", k=3, benchmark_params={"limit": 2})
    (tmp_path / "again.json").write_text(json.dumps(resolved_as_dict(first)))
    second = launch(tmp_path / "again.json", tmp_path, SECRETS)
    assert second.requests[0].model.api_key == first.requests[0].model.api_key
    assert second.requests[0].execution == first.requests[0].execution
    assert second.requests[0].benchmark == first.requests[0].benchmark
    assert second.runtime == first.runtime
