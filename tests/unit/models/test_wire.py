"""JSON to and from the wire."""

import json
import threading
from types import MappingProxyType

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.models import wire


async def test_any_text_survives_lone_surrogates_included():
    body = {
        "messages": [{"content": "é\u2028\U0001f600"}, {"content": "half \ud83d"}],
        "model": "m",
    }
    sent = await wire.encode(body)
    assert b"\\ud83d" in sent
    assert "é".encode() in sent
    assert json.loads(sent) == body
    assert await wire.decode(sent) == body


async def test_read_only_mappings_and_tuples_are_sent():
    body = {"a": MappingProxyType({"b": (1, 2)}), "c": ({"d": None},)}
    assert json.loads(await wire.encode(body)) == {"a": {"b": [1, 2]}, "c": [{"d": None}]}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), b"bytes", threading.Lock()]
)
async def test_what_is_no_json_is_refused(value):
    with pytest.raises(ValueError):
        await wire.encode({"temperature": [value]})


async def test_what_contains_itself_is_refused():
    loop = {}
    loop["again"] = loop
    with pytest.raises(ValueError):
        wire._encode(loop)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<html>", b"[" * 200_000, b"1" * 10_000, b'{"a":}'], ids=range(6)
)
async def test_what_is_no_json_raises_one_error(body):
    with pytest.raises(ValueError):
        await wire.decode(body)


async def test_invalid_utf8_becomes_replacement_characters():
    assert await wire.decode(b'{"a": "x\xffy"}') == {"a": "x\ufffdy"}


@pytest.mark.parametrize("size", [10, 3 * wire.INLINE_LIMIT])
async def test_large_bodies_are_coded_off_the_loop(monkeypatch, size):
    threads = []

    async def run_sync(function, *args):
        threads.append(function.__name__)
        return function(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * size}]}]}
    assert await wire.decode(await wire.encode(body)) == body
    assert len(threads) == (0 if size == 10 else 2)


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(st.characters()),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
    )
)
def test_encoding_is_what_the_json_module_says(body):
    assert json.loads(wire._encode(body)) == json.loads(json.dumps(body))
