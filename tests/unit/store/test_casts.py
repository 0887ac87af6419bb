"""Secrets are removed from recordings of a terminal, wherever its events are cut."""

import io
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.secrets import Scrubber
from agentcompass.store import casts, evidence

KEY = "sk-0123456789-secret"
HEAD = json.dumps({"version": 2, "width": 80, "height": 24})


def scrubber_of(*values):
    made = Scrubber()
    made.register(*values)
    return made


def cast(*texts):
    events = [text if isinstance(text, list) else [0.5, "o", text] for text in texts]
    return "".join(f"{line}\n" for line in [HEAD, *map(json.dumps, events)]).encode()


def scrubbed(content, scrubber):
    return b"".join(casts.scrubbed(io.BytesIO(content), scrubber))


def shown(content):
    events = map(json.loads, content.decode().splitlines()[1:])
    return "".join(text for _, kind, text in events if kind == "o")


def test_a_secret_across_events_and_markers_is_masked_where_it_begins():
    marker = [0.5, "m", "turn 2"]
    content = cast("key: sk-01", "2345", marker, "6789-secret.", "bye")
    expected = cast("key: [secret]", "", marker, ".", "bye")
    scrubber = scrubber_of(KEY)
    assert casts.shows_secret(io.BytesIO(content), scrubber)
    assert scrubbed(content, scrubber) == expected
    assert not casts.shows_secret(io.BytesIO(expected), scrubber)


@given(st.data())
def test_any_cut_of_any_text_shows_the_same_as_if_it_had_not_been_cut(data):
    parts = data.draw(
        st.lists(st.sampled_from([KEY, "sk-", "0123", "x", "\u00e9", "\n"]), max_size=12)
    )
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    scrubber = scrubber_of(KEY)
    assert shown(scrubbed(cast(*pieces), scrubber)) == scrubber.scrub(text)


def test_a_long_recording_is_masked_in_little_memory_and_ends_as_it_did(monkeypatch):
    monkeypatch.setattr(casts, "_WINDOW", 100)
    texts = [piece for n in range(500) for piece in (f"line {n}\r\n", KEY[:7], KEY[7:])]
    content = cast(*texts) + b'[0.5, "o", "torn'
    scrubber = scrubber_of(KEY)
    done = scrubbed(content, scrubber)
    assert done.endswith(b'\n[0.5, "o", "torn')
    assert shown(done.rpartition(b"\n")[0]).count("[secret]") == 500
    assert len(done.splitlines()) == len(content.splitlines())


def test_files_without_a_secret_stay_as_they_are_and_others_are_replaced(tmp_path):
    (tmp_path / "a.cast").write_bytes(cast("sk-0123", "nothing"))
    (tmp_path / "b.cast").write_bytes(cast("sk-0123", "456789-secret"))
    before = (tmp_path / "a.cast").stat()
    evidence.scrub_folder(tmp_path, scrubber_of(KEY))
    assert (tmp_path / "a.cast").stat() == before
    assert (tmp_path / "b.cast").read_bytes() == cast("[secret]", "")
    assert sorted(os.listdir(tmp_path)) == ["a.cast", "b.cast"]


@pytest.mark.parametrize("content", [b"", b"no json\n", b"[1]\n{}\n[[[\n", b"\xff\x00\n"])
def test_what_is_no_recording_stays_as_it_is(content):
    assert scrubbed(content, scrubber_of(KEY)) == content
