"""Models that are served by the engine itself: named by id alone."""

from __future__ import annotations

import json

import attrs

from agentcompass.components.model_clients import served_model
from agentcompass.plan.fingerprint import identity
from agentcompass.spec.dump import resolved_as_dict
from support.resolving import launch, problems_of, run

GEMMA = served_model("local/gemma-3-270m")


def resolved(tmp_path, **given):
    given = {"model": GEMMA.id, "model_base_url": None, **given}
    return run(tmp_path, **given)


def model_of(tmp_path, **given):
    return resolved(tmp_path, **given).requests[0].model


def test_a_served_model_needs_no_url_and_speaks_what_it_is_good_for(tmp_path):
    model = model_of(tmp_path)
    assert (model.base_url, model.served_version) == (None, GEMMA.version)
    assert model.api_protocol == GEMMA.protocols == ("openai-completions",)


def test_auto_stands_for_what_a_served_model_is_good_for(tmp_path):
    model = model_of(tmp_path, model_api_protocol=["auto", "openai-chat"])
    assert model.api_protocol == ("openai-completions", "openai-chat")


def test_a_protocol_that_is_asked_for_is_taken(tmp_path):
    assert model_of(tmp_path, model_api_protocol="openai-chat").api_protocol == ("openai-chat",)


def test_with_a_url_the_id_is_just_the_name_at_that_endpoint(tmp_path):
    for name in (GEMMA.id, "local/anything"):
        model = model_of(tmp_path, model=name, model_base_url="http://127.0.0.1:9/v1")
        assert (model.served_version, model.api_protocol) == (None, ("auto",))


def test_an_unknown_local_model_is_the_only_problem_told(tmp_path):
    (line,) = problems_of(resolved, tmp_path, model="local/gemma-3-27b")
    assert "unknown local model 'local/gemma-3-27b' (did you mean 'local/gemma-3-270m'?)" in line


def test_any_other_model_still_needs_a_url(tmp_path):
    (line,) = problems_of(resolved, tmp_path, model="gemma-3-270m")
    assert "model_base_url" in line


def test_a_harness_without_model_takes_any_id(tmp_path):
    assert model_of(tmp_path, harness="oracle", model="local/none").served_version is None


def test_what_it_resolved_to_resolves_to_the_same(tmp_path):
    first = resolved(tmp_path)
    (tmp_path / "again.json").write_text(json.dumps(resolved_as_dict(first)))
    again = launch(tmp_path / "again.json", tmp_path)
    assert again.requests[0].model == first.requests[0].model


def test_the_weights_are_what_is_compared_and_no_url_is(tmp_path):
    request = resolved(tmp_path).requests[0]
    facts = {"dataset_version": "1", "component_versions": {}, "recipes": ()}
    known = identity(request, **facts).written["model"]
    assert (known["id"], known["version"], known["base_url"]) == (GEMMA.id, GEMMA.version, "")
    other = attrs.evolve(request, model=attrs.evolve(request.model, served_version="sha256:0"))
    assert identity(other, **facts) != identity(request, **facts)
