"""Secrets: what never prints, and what is found in text however it was encoded."""

import base64
import json
import pickle
from urllib.parse import quote, quote_plus

import pytest

from agentcompass.secrets import MASK, Scrubber, Secret

VALUE = 'sk key/with+odd "signs"&é-ü~?%'

ENCODINGS = {
    "as it is": lambda text: text,
    "JSON": lambda text: json.dumps({"a": text}),
    "JSON in characters beyond ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "a Python literal in JSON": lambda text: json.dumps(repr(text)),
    "JSON in a Python literal": lambda text: repr(json.dumps(text)),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "a Python literal": repr,
    "quote": quote,
    "quote of everything": lambda text: quote(text, safe=""),
    "quote_plus": quote_plus,
    "quote_plus with slashes": lambda text: quote_plus(text, safe="/"),
    "percent signs with small letters": lambda text: quote(text, safe="").replace("%2B", "%2b").replace("%2F", "%2f").replace("%C3%A9-%C3%BC", "%c3%a9-%c3%bc").replace("%7E", "%7e").replace("%3F", "%3f"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
}  # fmt: skip


def scrubber(*values):
    made = Scrubber()
    made.register(*values)
    return made


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("value", [VALUE, "sk-plain-0123456789", r"back\slash-'k\e'y"])
def test_a_value_is_found_in_every_encoding_that_is_promised(encode, value):
    encoded = encode(value)
    cleaned = scrubber(value).scrub(f"before {encoded} after")
    assert MASK in cleaned
    assert encoded.strip("'\"={}a :") not in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")


@pytest.mark.parametrize("value", ["caf\udce9-secret", "lone-\ud800-surrogate"])
def test_a_value_that_is_no_valid_text_is_no_obstacle(value):
    assert value not in scrubber(value).scrub(f"x {value} y")


def test_bytes_of_the_environment_are_found_as_they_are_sent():
    value = b"caf\xe9-secret".decode(errors="surrogateescape")
    assert scrubber(value).scrub("caf%E9-secret") == MASK


def test_a_short_value_is_left_alone():
    assert scrubber("abcde").scrub("abcde") == "abcde"
    assert scrubber("abcdef").scrub("abcdef") == MASK


def test_a_longer_value_goes_before_one_that_is_part_of_it():
    assert scrubber("abcdef", "abcdef-ghijkl").scrub("abcdef-ghijkl") == MASK


def test_secrets_of_one_value_are_one():
    assert {Secret("a"), Secret("a", "${A}"), Secret("b")} == {Secret("a"), Secret("b")}
    assert not Secret("")


def test_a_secret_shows_in_no_way():
    secret = Secret("the-value", "${NAME}")
    assert "the-value" not in f"{secret} {secret!r} {[secret]}"
    assert secret.written == "${NAME}"
    assert Secret("the-value").written == MASK
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(secret)


# --- bytes


@pytest.mark.parametrize("size", range(1, 40))
def test_a_value_that_is_cut_across_pieces_is_found(size):
    known = scrubber(VALUE, "sk-plain-0123456789")
    text = f"{VALUE}, sk-plain-0123456789 and {json.dumps(VALUE)}, {quote(VALUE)}".encode() * 2
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    scrubbed = b"".join(known.scrub_pieces(pieces))
    assert scrubbed == known.scrub_bytes(text)
    assert scrubbed.decode() == known.scrub(text.decode())


def test_bytes_without_a_value_are_left_as_they_are():
    data = bytes(range(256)) * 3
    assert b"".join(scrubber(VALUE).scrub_pieces([data[:300], data[300:], b""])) == data
    assert b"".join(scrubber().scrub_pieces([data])) == scrubber().scrub_bytes(data) == data
