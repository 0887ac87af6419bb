"""Sends a reply back as its endpoint said it, with what a harness has changed since. Pure.

Signatures and encrypted reasoning are checked by the endpoint against the very blocks that it sent, in their order:
they are never taken apart and put together again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentcompass.components.messages import Message, ToolCall
from agentcompass.records import JSON

Item = Mapping[str, JSON]


class ItemForm(Protocol):
    """The items that a reply consists of in one protocol."""

    @property
    def name(self) -> str:
        """The protocol's name."""
        ...

    def is_text(self, item: Item) -> bool:
        """Whether an item is a part of the message's text."""
        ...

    def is_reasoning(self, item: Item) -> bool:
        """Whether an item is what the model thought before the next one."""
        ...

    def call_of(self, item: Item) -> ToolCall | None:
        """Return the tool call that an item is; None if it is none."""
        ...

    def text_item(self, text: str) -> Item:
        """Return the item that says a text."""
        ...

    def call_item(self, call: ToolCall) -> Item:
        """Return the item that makes a tool call."""
        ...


def replayed(message: Message, form: ItemForm) -> list[Item]:
    """Return the items of an assistant message.

    Those that the endpoint sent stay as they are and where they are. A changed text takes the place of the first one,
    a changed call that of the call with its id; calls that are gone are left out, others follow. Reasoning that nothing
    follows, as of a reply that was cut off, is left out too: endpoints refuse it.
    """
    verbatim = message.verbatim
    said = verbatim.items if verbatim is not None and verbatim.protocol == form.name else ()
    is_same_text = verbatim is not None and bool(said) and verbatim.text == message.text
    is_new_text = bool(message.text.strip()) and not is_same_text
    new_text = [form.text_item(message.text)] if is_new_text else []
    calls = list(message.tool_calls)
    items: list[Item] = []
    text_place = len(said)
    for item in said:
        known = form.call_of(item)
        if known is not None:
            text_place = min(text_place, len(items))
            call = next((call for call in calls if call.id == known.id), None)
            if call is not None:
                calls.remove(call)
                items.append(item if call == known else form.call_item(call))
        elif not form.is_text(item) or is_same_text:
            items.append(item)
        else:
            text_place = min(text_place, len(items))
    items[text_place:text_place] = new_text
    items += map(form.call_item, calls)
    while items and form.is_reasoning(items[-1]):
        items.pop()
    return items
