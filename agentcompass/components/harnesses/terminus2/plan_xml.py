"""The XML form of a reply: tags around texts that are taken as they stand, since what they hold is keys, not markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from agentcompass.components.harnesses.terminus2.plan import (
    Command,
    Plan,
    refused,
    wait_of,
    with_advice,
)
from agentcompass.data import frozen

_KEYS: Final = re.compile(r"<keystrokes((?:\s[^<>]{0,200})?)>")
_DURATION: Final = re.compile(r"\bduration\s*=\s*[\"']?\s*([^\"'\s>]{1,40})")
_SEPARATE_DURATION: Final = re.compile(r"\s*<duration>\s*([^<>]{1,40}?)\s*</duration>")
_END_OF_KEYS: Final = "</keystrokes>"
_ENTITIES: Final = ("&lt;", "&gt;", "&amp;", "&quot;", "&apos;")


@frozen(kw_only=True)
class _Block:
    """What stands between a tag and its end."""

    text: str
    is_closed: bool
    begin: int
    end: int
    """Behind its end tag."""


def parse(text: str) -> Plan:
    """Read a reply in the XML form. Never raises.

    Texts are verbatim: no entity is resolved. Keystrokes that are not closed are an error, other tags only a warning.
    """
    warnings: list[str] = []
    response = _block(text, "response")
    if response is None:
        if "<commands" not in text and "<task_complete" not in text:
            return refused("there is no <response> in it", is_whole=False)
        warnings.append("the tag <response> is missing")
        body, is_whole = text, True
    else:
        body, is_whole = response.text, response.is_closed
        if not is_whole:
            warnings.append("<response> is not closed")
        for words, where in ((text[: response.begin], "before"), (text[response.end :], "after")):
            if words.strip():
                warnings.append(f"there is text {where} <response>, which was ignored")
    return _plan(body, warnings, is_whole=is_whole)


def _plan(body: str, warnings: list[str], *, is_whole: bool) -> Plan:
    # what is typed may itself look like tags: everything else is looked for outside of the commands
    commands = _block(body, "commands")
    rest = body if commands is None else body[: commands.begin] + body[commands.end :]
    done = _block(rest, "task_complete")
    is_done = done is not None and done.text.strip().lower() == "true"
    analysis = _block(rest, "analysis")
    for name, block in (("analysis", analysis), ("plan", _block(rest, "plan"))):
        if block is None:
            warnings.append(f"<{name}> is missing")
    if commands is None:
        if not is_done and "<commands/>" not in rest.replace(" ", ""):
            return refused("<commands> is missing", warnings, is_whole=is_whole)
    elif not commands.is_closed:
        warnings.append("<commands> is not closed")
        is_whole = False
    read = list(_commands("" if commands is None else commands.text, warnings))
    if read and read[-1] is None:
        return refused("<keystrokes> is not closed", warnings, is_whole=False)
    return with_advice(
        Plan(
            commands=tuple(command for command in read if command is not None),
            is_done=is_done,
            analysis="" if analysis is None else analysis.text.strip(),
            warnings=tuple(warnings),
            is_whole=is_whole,
        )
    )


def _commands(text: str, warnings: list[str]) -> Iterator[Command | None]:
    """The commands in order; None for one that is not closed, which is the last."""
    at, number = 0, 0
    while (tag := _KEYS.search(text, at)) is not None:
        number += 1
        end = text.find(_END_OF_KEYS, tag.end())
        if end < 0:
            yield None
            return
        keystrokes = text[tag.end() : end]
        at = end + len(_END_OF_KEYS)
        asked = _DURATION.search(tag[1]) or _SEPARATE_DURATION.match(text, at)
        where = f"command {number}"
        if any(entity in keystrokes for entity in _ENTITIES):
            warnings.append(f"{where} has XML entities, which were typed as they stand")
        duration = wait_of(asked[1] if asked else None, where, warnings)
        yield Command(keystrokes=keystrokes, duration=duration)


def _block(text: str, name: str) -> _Block | None:
    """The first block of a name; up to the last end tag where it may hold anything, else to the first."""
    begin = text.find(f"<{name}>")
    if begin < 0:
        return None
    start, tag = begin + len(name) + 2, f"</{name}>"
    end = (text.rfind if name in ("response", "commands") else text.find)(tag, start)
    if end < 0:
        return _Block(text=text[start:], is_closed=False, begin=begin, end=len(text))
    return _Block(text=text[start:end], is_closed=True, begin=begin, end=end + len(tag))
