"""The raw stream, taken apart."""

import random
import struct

import pytest

from agentcompass.containers.frames import STDERR, STDOUT, Frames


def frame(stream, data):
    return struct.pack(">BxxxL", stream, len(data)) + data


def joined(pieces):
    kept = {STDOUT: b"", STDERR: b""}
    for stream, data in pieces:
        kept[stream] += data
    return kept


def test_output_and_errors_are_told_apart():
    frames = Frames()
    pieces = frames.feed(frame(1, b"out") + frame(2, b"err") + frame(1, b"\n"))
    assert list(pieces) == [(STDOUT, b"out"), (STDERR, b"err"), (STDOUT, b"\n")]
    assert frames.is_complete


def test_the_engines_own_words_are_errors():
    assert list(Frames().feed(frame(3, b"gone"))) == [(STDERR, b"gone")]


def test_however_it_is_cut_the_same_comes_out():
    chance = random.Random(7)
    sent = [(chance.choice([1, 2]), chance.randbytes(chance.randrange(40))) for _ in range(200)]
    data = b"".join(frame(*piece) for piece in sent)
    for size in (1, 2, 7, 8, 9, 31, 1000):
        frames = Frames()
        pieces = [
            piece for at in range(0, len(data), size) for piece in frames.feed(data[at : at + size])
        ]
        assert joined(pieces) == joined(sent)
        assert frames.is_complete


@pytest.mark.parametrize("cut", [1, 7, 8, 10])
def test_a_stream_that_ends_within_a_frame_is_not_complete(cut):
    frames = Frames()
    list(frames.feed(frame(1, b"abc")[:cut]))
    assert not frames.is_complete


@pytest.mark.parametrize("head", [b"HTTP/1.1", b"\x01\x01\x00\x00\x00\x00\x00\x01"])
def test_what_is_no_frame_is_refused(head):
    with pytest.raises(ValueError, match="no frame begins"):
        list(Frames().feed(head))


def test_a_frame_of_four_gigabytes_is_handed_on_as_it_comes():
    frames = Frames()
    list(frames.feed(struct.pack(">BxxxL", 1, 2**32 - 1)))
    for _ in range(100):
        assert list(frames.feed(bytes(65536))) == [(STDOUT, bytes(65536))]
