"""References to variables, and which values are secret."""

import pytest

from agentcompass.secrets import Secret
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References, escape
from agentcompass.spec.secret_names import is_secret_name
from agentcompass.spec.tree import Origin, from_python
from agentcompass.spec.yaml import load_text


def _follow(value, **environ):
    problems = Problems()
    node = from_python({"value": value}, Origin(layer="x", where="x"), problems)
    assert not len(problems)
    references = References(environ)
    return references.follow(node).get("value"), references


def _field(key, value, **environ):
    """A value under a key, and what was collected."""
    node, references = _follow({key: value}, **environ)
    return node.get(key), {s.reveal(): s.written for s in references.secrets}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "one"),
        ("x${A}y${B}z", "xoneytwoz"),
        ("${NONE:-default}", "default"),
        ("${NONE:-}", ""),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${A:-default}", "one"),
        ("${NONE:-http://h:1/v1}", "http://h:1/v1"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A and $", "$A and $"),
        ("no reference", "no reference"),
        ("${LOOP}", "${LOOP}"),
        ("${NEST}", "${A}"),
    ],
)
def test_references_are_followed_once(text, value):
    node, _ = _follow(text, A="one", B="two", EMPTY="", LOOP="${LOOP}", NEST="${A}")
    assert (node.data, node.fault) == (value, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NONE}", "the environment variable 'NONE' is not set"),
        ("a${A}b${NONE}", "'NONE' is not set"),
        ("${A:default}", "write ${NAME}"),
        ("${}", "write ${NAME}"),
        ("${1A}", "write ${NAME}"),
        ("${A", "write ${NAME}"),
        ("${A-b}", "write ${NAME}"),
    ],
)
def test_what_cannot_be_followed_is_a_fault_of_the_value(text, words):
    node, _ = _follow(text, A="one")
    assert words in node.fault


def test_escaping_is_undone_by_following():
    text = "a ${B} $${C}"
    assert _follow(escape(text))[0].data == text


def test_lists_and_mappings_are_followed_to_their_leaves():
    node, _ = _follow([{"a": ["${A}"]}], A="one")
    assert node.data[0].get("a").data[0].data == "one"


@pytest.mark.parametrize(
    "name",
    ["api_key", "API_KEY", "OPENAI_API_KEY", "apiKey", "X-Api-Key", "hf_token", "token", "password",
     "db_password", "client_secret", "secret", "Authorization", "aws_secret_access_key", "some_key"],
)  # fmt: skip
def test_names_that_say_secret(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "max_token", "max_output_tokens", "sort_key", "eos_token", "stop_token", "answer_key",
     "key", "keys", "tokenizer", "monkey", "public_key", "keyboard", "model", "secretary", ""],
)  # fmt: skip
def test_names_that_only_look_so(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("key", "value", "collected"),
    [
        ("api_key", "sk-clear", {"sk-clear": "[secret]"}),
        ("api_key", "${K}", {"sk-env": "${K}"}),
        ("api_key", "${NONE:-sk-default}", {"sk-default": "${NONE}"}),
        ("header", "Bearer ${MY_TOKEN}", {"tok": "${MY_TOKEN}"}),
        ("authorization", "Bearer ${K}", {"Bearer sk-env": "Bearer ${K}", "sk-env": "${K}"}),
        (
            "authorization",
            "Bearer sk-clear",
            {"Bearer sk-clear": "[secret]", "sk-clear": "[secret]"},
        ),
        ("api_key", "sk-part${K}", {"sk-partsk-env": "[secret]${K}", "sk-env": "${K}"}),
        ("api_key", "", {}),
        ("max_tokens", "123456", {}),
        ("sort_key", "created_at", {}),
        (
            "url",
            "http://user:pass%21word@h/",
            dict.fromkeys(("pass%21word", "pass!word", "user:pass!word"), "[secret]"),
        ),
        (
            "url",
            "see https://ghp_token@github.com/x",
            dict.fromkeys(("ghp_token", "ghp_token:"), "[secret]"),
        ),
        ("url", "http://h/a@b", {}),
        ("text", "${K}", {}),
        ("passwords", ["one111", "two222"], {"one111": "[secret]", "two222": "[secret]"}),
        ("secret", {"inner": "deep12"}, {"deep12": "[secret]"}),
    ],
)
def test_secrets_are_collected_with_what_may_be_written_for_them(key, value, collected):
    _, found = _field(key, value, K="sk-env", MY_TOKEN="tok")
    for secret, written in collected.items():
        if written is not None:
            assert found[secret] == written
    assert set(found) == {secret for secret, written in collected.items() if written is not None}


def test_a_value_known_by_reference_keeps_it_when_it_comes_in_clear_too():
    references = References({"K": "sk-env12"})
    problems = Problems()
    tree = from_python(
        {"api_key": "${K}", "b_key": "sk-env12"}, Origin(layer="", where=""), problems
    )
    references.follow(tree)
    assert [secret.written for secret in references.secrets] == ["${K}"]


def test_secret_objects_pass_and_are_collected():
    secret = Secret("abcdef", "${X}")
    node, found = _field("anything", secret)
    assert node.data is secret
    assert node.is_secret
    assert found == {"abcdef": "${X}"}


def test_numbers_are_secret_only_where_nothing_else_can_be_meant():
    node = load_text(
        "password: 123456\ncontext_token: 131072\napi_key: 0123\n", "f", "x", Problems()
    )
    references = References({})
    references.follow(node)
    assert {secret.reveal() for secret in references.secrets} == {"123456", "0123"}


@pytest.mark.parametrize(
    ("key", "text", "stored", "counted"),
    [
        ("user", "${K}", "${K}", "sk-env"),
        ("user", "a ${K:-x} b", "a ${K:-x} b", "a sk-env b"),
        ("user", "$${A} ${K}", "$${A} ${K}", "${A} sk-env"),
        ("user", "${NONE:-http://u:pw@h}", "${NONE}", "http://[secret]@h"),
        ("user", "${K:-http://u:pw@h}", "${K}", "sk-env"),
        ("text", "by ${MY_TOKEN} of ${K}", "by ${MY_TOKEN} of ${K}", "by [secret] of sk-env"),
        ("url", "http://h/v1?api-key=${K}&v=1", "http://h/v1?api-key=${K}&v=1", "http://h/v1?api-key=[secret]&v=1"),
        ("url", "http://h/v1?x=${K}", "http://h/v1?x=${K}", "http://h/v1?x=[secret]"),
        ("url", "http://h/v1?api-version=${K}", "http://h/v1?api-version=${K}", "http://h/v1?api-version=sk-env"),
        ("url", "http://h/v1?key=abc-${K:-d}", "http://h/v1?key=[secret]${K}", "http://h/v1?key=[secret][secret]"),
        ("url", "http://h/v1?key=in-clear&b=c", "http://h/v1?key=[secret]&b=c", "http://h/v1?key=[secret]&b=c"),
        ("url", "http://me:${K}@h/v1", "http://me:${K}@h/v1", "http://me:[secret]@h/v1"),
        ("url", "http://me:pw@h/${K}", "http://[secret]@h/${K}", "http://[secret]@h/sk-env"),
        ("url", "${URL}", "${URL}", "http://h/?sig=[secret]"),
        ("url", "http://h/v1?b=c", None, None),
        ("api_key", "sk-clear", None, None),
    ],
)  # fmt: skip
def test_what_is_written_down_and_what_counts_instead_of_a_text(key, text, stored, counted):
    node, _ = _field(key, text, K="sk-env", MY_TOKEN="tok-123", URL="http://h/?sig=in-variable")
    assert (node.stored, node.counted) == (stored, counted)


@pytest.mark.parametrize(
    ("text", "collected"),
    [
        ("http://h/v1?api-key=${K}", {"sk-env": "${K}"}),
        ("http://h/v1?x=${K}", {"sk-env": "${K}"}),
        ("http://h/v1?x=in-clear", {}),
        ("http://h/v1?api-version=${K}", {}),
        ("http://h/${K}?a=b", {}),
        ("${URL}", {"a%2Fb": "[secret]", "a/b": "[secret]"}),
        ("see http://h/?token=in-text, and", {"in-text,": "[secret]", "in-text": "[secret]"}),
        ('{"url": "http://h/?token=in-json"}', {"in-json": "[secret]"}),
        ("https://h/cb#access_token=in-fragment", {"in-fragment": "[secret]"}),
        ("http://u:p@w@h/", {"p@w": "[secret]", "u:p@w": "[secret]"}),
        ("${KEY}", {"lone-key": "${KEY}"}),
    ],
)
def test_secrets_in_urls_are_collected(text, collected):
    _, found = _field("url", text, K="sk-env", URL="http://h/v1?key=a%2Fb", KEY="lone-key")
    assert found == collected
