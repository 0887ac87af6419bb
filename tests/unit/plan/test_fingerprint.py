import json

import attrs
import pytest

from agentcompass.plan.fingerprint import differences, fingerprint, identity
from agentcompass.secrets import Scrubber, Secret
from agentcompass.spec.resolved import ComponentConfig
from support.requests import execution_config, model_config
from support.requests import request as make_request
from support.resolving import run


@attrs.frozen(kw_only=True)
class Judge:
    model: str = "j"
    api_key: Secret | None = None


@attrs.frozen(kw_only=True)
class Params:
    temperature: float = 0
    limit: int | None = attrs.field(default=None, metadata={"selection": True})
    api_token: Secret | None = None
    judge: Judge = Judge()


def part(id_="part", **fields):
    params = Params(**fields)
    written = attrs.asdict(params, recurse=True)
    return ComponentConfig(id=id_, params=params, written=written)


REQUEST = make_request(
    part("bench"), part("harness"), part("env"), model=model_config(base_url="https://h/v1")
)


def identified(request=REQUEST, *, dataset="v1", versions=None, recipes=(), scrubber=None):
    """What an identity without references is written as, which is what its fingerprint is the hash of."""
    found = identity(
        request,
        dataset_version=dataset,
        component_versions=versions or {"benchmark:bench": "1"},
        recipes=recipes,
        scrubber=scrubber,
    )
    assert found.fingerprint == fingerprint(found.written)
    return found.written


def changed(**fields):
    return identified(attrs.evolve(REQUEST, **fields))


def with_model(**fields):
    return changed(model=attrs.evolve(REQUEST.model, **fields))


def with_execution(**fields):
    return changed(execution=execution_config(**fields))


@pytest.mark.parametrize(
    "other",
    [
        changed(benchmark=part("other")),
        changed(benchmark=part("bench", temperature=1)),
        changed(harness=part("harness", temperature=0.5)),
        changed(environment=part("env", judge=Judge(model="k"))),
        with_model(id="other"),
        with_model(base_url="https://other/v1"),
        with_model(params={"temperature": 1}),
        with_model(api_protocol=("anthropic",)),
        with_execution(k=2),
        with_execution(attempt_strategy="pass"),
        with_execution(run_timeout_seconds=5.0),
        with_execution(timeout_multiplier=2.0),
        identified(dataset="v2"),
        identified(versions={"benchmark:bench": "2"}),
        identified(recipes=["r"]),
    ],
    ids=lambda other: differences(identified(), other)[0],
)
def test_what_can_change_an_answer_changes_the_fingerprint(other):
    assert fingerprint(other) != fingerprint(identified())
    assert len(differences(identified(), other)) == 1


@pytest.mark.parametrize(
    "other",
    [
        changed(name="n", run_name="x", run_id="y", weight=2.0, reuse=True),
        changed(benchmark=part("bench", limit=5)),
        changed(benchmark=part("bench", api_token=Secret("abcdef", "${A}"))),
        changed(benchmark=part("bench", judge=Judge(api_key=Secret("abcdef")))),
        with_model(api_key=Secret("sk-abcdef")),
        with_model(base_url="https://user:secret@h/v1/"),
        with_model(max_retries=9, timeout_seconds=1.0, max_connections=1),
        with_model(rpm=500, tpm=90_000, share_limits=False),
        with_execution(max_retries=9, retry_pattern_list=("x",), min_coverage=0.5),
        with_execution(open_timeout_seconds=1.0, keep_environment=True, enable_analysis=False),
    ],
    ids=[
        "names",
        "selection",
        "secret",
        "nested secret",
        "key",
        "url credentials",
        "call limits",
        "rates and sharing",
        "retries",
        "other deadlines",
    ],
)
def test_what_cannot_change_an_answer_does_not(other):
    assert fingerprint(other) == fingerprint(identified())
    assert differences(identified(), other) == []


def test_zero_is_zero_however_it_is_written():
    assert fingerprint({"t": 0}) == fingerprint({"t": 0.0}) == fingerprint({"t": -0.0})
    assert fingerprint({"t": 1}) != fingerprint({"t": True})
    assert differences({"t": 1}, {"t": True}) == ["t: 1 -> true"]


def test_order_of_keys_does_not_matter_and_order_of_items_does():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": [1, 2]}) != fingerprint({"a": [2, 1]})


def test_odd_texts_have_a_fingerprint():
    assert len(fingerprint({"a": "\ud800\u2028"})) == 64


def test_differences_are_lines_a_person_can_read():
    before = {"model": {"params": {"temperature": 0, "seed": 1}}, "recipes": []}
    after = {"model": {"params": {"temperature": 1}, "id": "m"}, "recipes": ["a"]}
    assert differences(before, after) == [
        'model.id: (absent) -> "m"',
        "model.params.seed: 1 -> (absent)",
        "model.params.temperature: 0 -> 1",
        'recipes: [] -> ["a"]',
    ]


def test_a_secret_inside_model_parameters_is_neither_shown_nor_counted():
    scrubbers = []
    for value in ("sk-first-123", "sk-second-456"):
        scrubber = Scrubber()
        scrubber.register(value)
        request = attrs.evolve(
            REQUEST,
            model=attrs.evolve(REQUEST.model, params={"headers": {"x": f"Bearer {value}"}}),
        )
        scrubbers.append(identified(request, scrubber=scrubber))
    assert fingerprint(scrubbers[0]) == fingerprint(scrubbers[1])
    assert "sk-" not in str(scrubbers)


VERSIONS = {"dataset_version": "v1", "component_versions": {}, "recipes": []}


def resolved(tmp_path, environ, **given):
    return identity(run(tmp_path, environ, **given).requests[0], **VERSIONS)


@pytest.mark.parametrize(
    "given",
    [
        {"model_params": {"user": "${K}"}},
        {"model_params": {"deep": [{"er": "a ${K} b"}]}},
        {"model_base_url": "http://h/${K}"},
        {"model_base_url": "http://h/v1?api-version=${K}"},
        {"harness_params": {"system_prompt": "${K}"}},
        {"model": "${K}"},
    ],
    ids=[
        "parameter",
        "deep in a parameter",
        "path of a URL",
        "version in a URL",
        "prompt",
        "model id",
    ],
)
def test_a_value_given_by_reference_counts_as_if_it_stood_there(tmp_path, given):
    in_clear = json.loads(json.dumps(given).replace("${K}", "value-1"))
    first = resolved(tmp_path, {"K": "value-1"}, **given)
    other = resolved(tmp_path, {"K": "value-2"}, **given)
    assert first.fingerprint == resolved(tmp_path, {}, **in_clear).fingerprint
    assert first.fingerprint != other.fingerprint
    (difference,) = differences(first.written, other.written)
    if "model" not in given:
        assert "value-1" not in str(first.written)
        assert difference.count("${K}") == 2


@pytest.mark.parametrize(
    "given",
    [
        {"model_params": {"api_key": "${K}"}},
        {"model_params": {"user": "Bearer ${MY_TOKEN}"}},
        {"model_base_url": "http://h/v1?api-key=${K}"},
        {"model_base_url": "http://me:${K}@h/v1"},
        {"model_api_key": "${K}"},
    ],
    ids=["secret field", "secret variable", "parameter of a URL", "password", "key"],
)
def test_a_secret_given_by_reference_counts_nowhere(tmp_path, given):
    first = resolved(tmp_path, {"K": "secret-1", "MY_TOKEN": "secret-1"}, **given)
    other = resolved(tmp_path, {"K": "secret-2", "MY_TOKEN": "secret-2"}, **given)
    assert first == other
    assert "secret-" not in str(first)
