"""Server-sent events out of bytes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.net.sse import DONE, EventDecoder, EventTooLargeError, ServerSentEvent


def decode(*chunks, max_event_bytes=1000):
    decoder = EventDecoder(max_event_bytes=max_event_bytes)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def data(*chunks, **options):
    return [event.data for event in decode(*chunks, **options)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_every_line_end_counts(end):
    assert data(end.join([b"data: one", b"", b"data:two", b"", b""])) == ["one", "two"]


def test_data_lines_are_joined_and_comments_left_out():
    assert data(b": ping\n\ndata: a\n: more\ndata: b\nid: 7\n\n") == ["a\nb"]


def test_an_event_may_have_a_type():
    assert decode(b"event: error\ndata: x\n\ndata: y\n\n") == [
        ServerSentEvent(data="x", event="error"),
        ServerSentEvent(data="y"),
    ]


def test_only_one_space_after_the_colon_is_dropped():
    assert data(b"data:  x\n\n") == [" x"]


def test_the_last_event_may_lack_its_empty_line():
    assert data(b"data: a\n\ndata: [DONE]") == ["a", DONE]


def test_a_byte_order_mark_is_dropped():
    assert data(b"\xef\xbb\xbfdata: x\n\n") == ["x"]


def test_an_event_is_given_as_soon_as_it_is_complete():
    decoder = EventDecoder(max_event_bytes=100)
    assert decoder.feed(b"data: a\n") == []
    assert [event.data for event in decoder.feed(b"\nda")] == ["a"]


def test_a_crlf_cut_in_two_is_one_line_end():
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_invalid_bytes_become_replacement_characters():
    assert data(b"data: a\xff\n\n") == ["a\ufffd"]


def test_a_line_without_end_is_refused():
    decoder = EventDecoder(max_event_bytes=1000)
    with pytest.raises(EventTooLargeError):
        for _ in range(20):
            decoder.feed(b"x" * 100)


def test_an_event_of_many_lines_is_refused():
    decoder = EventDecoder(max_event_bytes=1000)
    with pytest.raises(EventTooLargeError):
        decoder.feed(b"data: 0123456789\n" * 200)


TEXT = "data: ünï\U0001f600\r\n\r\n: c\ndata: b\ndata: c\r\rdata: x\n\n"


@given(cuts=st.lists(st.integers(0, len(TEXT.encode())), max_size=12))
def test_it_does_not_matter_where_the_network_cuts(cuts):
    raw = TEXT.encode()
    places = [0, *sorted(cuts), len(raw)]
    chunks = [raw[a:b] for a, b in itertools.pairwise(places)]
    assert data(*chunks) == ["ünï\U0001f600", "b\nc", "x"]


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_no_bytes_are_fatal(chunks):
    decode(*chunks, max_event_bytes=10_000)
