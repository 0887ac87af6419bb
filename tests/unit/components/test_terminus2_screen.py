"""What `terminus2` shows of a terminal: what is new, within a limit; and how full the context is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.harnesses.terminus2.room import Room, estimated_tokens
from agentcompass.components.harnesses.terminus2.screen import Excerpt, Look, limited, news
from agentcompass.components.messages import Message
from agentcompass.records import Usage


def look(*lines):
    return Look(top=0, height=40, lines=lines)


def new(before, *now):
    found = news(look(*before), Excerpt(head=now))
    return None if found is None else found.head


def test_new_lines_begin_with_the_one_that_was_the_last():
    assert new(["a", "$"], "a", "$ ls", "b", "$") == ("$ ls", "b", "$")


def test_nothing_new_is_told_apart():
    assert new(["a", "$"], "a", "$") is None


def test_a_screen_that_was_drawn_anew_has_no_news():
    assert new(["a", "$"], "$") is None
    assert new(["a", "10 %"], "a", "20 %") is None
    assert new(["a", "$"], "b", "$ ls") is None


def test_all_is_new_after_an_empty_screen():
    assert new([], "$") == ("$",)


def test_a_text_within_its_limit_is_whole():
    assert limited(Excerpt(head=("a", "b")), 1024) == ("a\nb", False)


def test_of_a_long_text_whole_lines_from_both_ends_are_kept():
    lines = tuple(f"line {number:03}" for number in range(400))
    text, is_cut = limited(Excerpt(head=lines), 1024)
    shown = text.split("\n")
    gap = next(at for at, line in enumerate(shown) if line.startswith("[..."))
    assert is_cut
    assert shown[:gap] == list(lines[:gap])
    assert shown[gap + 1 :] == list(lines[-len(shown[gap + 1 :]) :])
    assert shown[gap] == f"[... {400 - len(shown) + 1} lines left out ...]"


def test_lines_that_were_not_fetched_count_as_left_out():
    text, _ = limited(Excerpt(head=("a",), tail=("z",), omitted=100), 1024)
    assert text == "a\n[... 100 lines left out ...]\nz"


@given(
    st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])), min_size=1),
    st.integers(1024, 2048),
)
def test_a_limited_text_keeps_its_limit_and_is_good_utf8(lines, max_bytes):
    text, is_cut = limited(Excerpt(head=tuple(lines * 9)), max_bytes)
    assert len(text.encode()) <= max_bytes
    assert is_cut == (len("\n".join(lines * 9).encode()) > max_bytes)


# --- the context


def messages(*sizes):
    return [Message(role="user", content="x" * 4 * size) for size in sizes]


def test_free_tokens_are_counted_from_what_the_endpoint_said():
    room = Room(1000)
    room.learn(messages(100), Usage(calls=1, input_tokens=300, output_tokens=50))
    taken = 350 + estimated_tokens(messages(10)) * 300 / estimated_tokens(messages(100))
    assert room.free(messages(100, 50), messages(10)) == 1000 - taken


def test_an_endpoint_that_tells_no_usage_is_estimated():
    room = Room(1000)
    room.learn(messages(100), Usage(calls=1, unmetered_calls=1))
    assert room.free(messages(100), messages(10)) == 1000 - estimated_tokens(messages(100, 10))


def test_without_a_length_there_is_always_room():
    assert Room(None).free(messages(10**6), []) == float("inf")


def test_a_conversation_is_unwound_by_exchanges_until_there_is_room():
    history = messages(100, 3000, 3000, 3000, 3000)
    left = Room(None).unwound(history, messages(100), 1)
    assert left == history[:3]


def test_at_least_one_exchange_goes_and_the_task_stays():
    history = messages(100, 10, 10, 10)
    assert Room(10**6).unwound(history, messages(5000), 1) == history[:2]
    assert Room(100).unwound(history, messages(10), 1) == history[:1]
