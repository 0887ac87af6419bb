import attrs
import pytest

from agentcompass.plan.fingerprint import differences, fingerprint, identity
from agentcompass.secrets import Scrubber, Secret
from agentcompass.spec.resolved import ComponentConfig
from support.requests import execution_config, model_config
from support.requests import request as make_request


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
    return identity(
        request,
        dataset_version=dataset,
        component_versions=versions or {"benchmark:bench": "1"},
        recipes=recipes,
        scrubber=scrubber,
    )


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
