"""Output is kept as head and tail in constant memory."""

from agentcompass.components.environments.capture import HeadTail


def collected(limit: int, *chunks: bytes) -> HeadTail:
    output = HeadTail(limit)
    for chunk in chunks:
        output.add(chunk)
    return output


def test_short_output_is_kept_whole():
    output = collected(10, b"01234", b"56789")
    assert output.text() == "0123456789"
    assert not output.is_truncated


def test_long_output_keeps_head_and_tail_and_says_how_much_is_missing():
    output = collected(6, b"abc", b"x" * 1000, b"def")
    assert output.text() == "abc\n[... 1000 bytes dropped ...]\ndef"
    assert output.is_truncated


def test_one_byte_at_a_time_gives_the_same_as_all_at_once():
    data = bytes(range(97, 123)) * 40
    assert collected(7, *(bytes([b]) for b in data)).text() == collected(7, data).text()


def test_a_character_that_was_split_between_chunks_is_decoded_whole():
    assert collected(100, b"\xe2\x82", b"\xac").text() == "€"


def test_bytes_that_are_no_text_become_replacement_characters():
    assert collected(100, b"\xff\x00ok").text() == "\ufffd\x00ok"


def test_a_limit_of_zero_or_less_keeps_only_the_count():
    assert (
        collected(0, b"abc").text()
        == collected(-5, b"abc").text()
        == "\n[... 3 bytes dropped ...]\n"
    )


def test_a_flood_does_not_grow_in_memory():
    output = HeadTail(1000)
    for _ in range(500):
        output.add(b"y" * 65536)
    assert len(output._head) + len(output._tail) <= 3000
