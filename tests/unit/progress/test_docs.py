from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from agentcompass.progress import events

PAGE = (Path(__file__).parents[3] / "docs" / "progress.md").read_text(encoding="utf-8")


EVENTS = [
    value
    for value in vars(events).values()
    if isinstance(value, type) and issubclass(value, events.Event) and value is not events.Event
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_the_page_lists_every_event_with_its_fields(event):
    (row,) = re.findall(rf"^\| `{event.kind}` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    fields = {field.name for field in attrs.fields(event)} - {"at", "request"}
    assert set(re.findall(r"`(\w+)`", row)) == fields
