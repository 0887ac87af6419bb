"""The JSON form of a reply: an object with analysis, plan, commands and task_complete, perhaps with words around it."""

from __future__ import annotations

import json
from typing import Any, Final

from agentcompass.components.harnesses.terminus2.plan import (
    Command,
    Plan,
    refused,
    wait_of,
    with_advice,
)
from agentcompass.data import frozen
from agentcompass.records import JSON

_FIELDS: Final = frozenset({"analysis", "plan", "commands", "task_complete"})
_COMMAND_FIELDS: Final = frozenset({"keystrokes", "duration"})
_MAX_CANDIDATES: Final = 50
"""Places at which an object is looked for."""
_MAX_MENDED_DEPTH: Final = 100
_FENCES: Final = ("```json", "```JSON", "```")
_WORDS: Final = {"true": True, "false": False}

_decoder: Final = json.JSONDecoder(strict=False)
"""Takes line ends inside of texts, which models do write."""


@frozen(kw_only=True)
class _Found:
    """The object of a reply."""

    value: dict[str, Any]
    before: str = ""
    after: str = ""
    is_whole: bool = True


def parse(text: str) -> Plan:
    """Read a reply in the JSON form. Never raises.

    An object that lacks only its last brackets is closed; one that ends inside of a text is not, since those keys would
    not be the ones that were meant.
    """
    found = _find(text)
    if found is None:
        return refused(_why_none(text), is_whole=False)
    warnings: list[str] = []
    if not found.is_whole:
        warnings.append("the JSON object was not closed: the missing brackets were added")
    for words, where in ((found.before, "before"), (found.after, "after")):
        if _is_text(words):
            warnings.append(f"there is text {where} the JSON object, which was ignored")
    return _plan(found, warnings)


def _plan(found: _Found, warnings: list[str]) -> Plan:
    value = found.value
    if unknown := sorted(map(str, value.keys() - _FIELDS)):
        warnings.append(f"unknown fields were ignored: {', '.join(unknown):.100}")
    analysis = _text_field(value, "analysis", warnings)
    _text_field(value, "plan", warnings)
    is_done = _truth(value.get("task_complete"), warnings)
    asked = value.get("commands")
    if asked is None and is_done:
        asked = []
    if not isinstance(asked, list):
        what = "is missing" if asked is None else "is no list"
        return refused(f'the field "commands" {what}', warnings, is_whole=found.is_whole)
    commands = []
    for number, item in enumerate(asked, 1):
        command = _command(item, f"command {number}", warnings)
        if isinstance(command, str):
            return refused(command, warnings, is_whole=found.is_whole)
        commands.append(command)
    return with_advice(
        Plan(
            commands=tuple(commands),
            is_done=is_done,
            analysis=analysis,
            warnings=tuple(warnings),
            is_whole=found.is_whole,
        )
    )


def _command(item: JSON, where: str, warnings: list[str]) -> Command | str:
    """A command, or why it is none."""
    if not isinstance(item, dict):
        return f"{where} is no object"
    keystrokes = item.get("keystrokes")
    if not isinstance(keystrokes, str):
        return f'{where} has no text "keystrokes"'
    if unknown := sorted(map(str, item.keys() - _COMMAND_FIELDS)):
        warnings.append(
            f"{where} has unknown fields, which were ignored: {', '.join(unknown):.100}"
        )
    return Command(keystrokes=keystrokes, duration=wait_of(item.get("duration"), where, warnings))


def _text_field(value: dict[str, Any], name: str, warnings: list[str]) -> str:
    text = value.get(name)
    if text is None:
        warnings.append(f'the field "{name}" is missing')
        return ""
    if not isinstance(text, str):
        warnings.append(f'the field "{name}" is no text')
        return json.dumps(text, ensure_ascii=False)
    return text


def _truth(value: JSON, warnings: list[str]) -> bool:
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    if value is None or isinstance(value, bool):
        return bool(value)
    warnings.append('the field "task_complete" is neither true nor false: false was taken')
    return False


def _find(text: str) -> _Found | None:
    """The first object that has a field of a reply, or one that lacks its brackets, or an object at all.

    What stands inside of an object that cannot be read is none of these.
    """
    first: _Found | None = None
    is_broken = False
    at = text.find("{")
    for _ in range(_MAX_CANDIDATES):
        if at < 0:
            break
        end = at + 1
        try:
            value, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            is_broken = True
        else:
            found = _Found(value=value, before=text[:at], after=text[end:])
            if value.keys() & _FIELDS:
                return found
            first = first or (None if is_broken else found)
        at = text.find("{", end)
    return _mended(text) or first


def _mended(text: str) -> _Found | None:
    """The object that begins with the first brace, its missing brackets added."""
    at = text.find("{")
    closing = None if at < 0 else _missing_brackets(text[at:])
    if not closing:
        return None
    try:
        value, _end = _decoder.raw_decode(text[at:].rstrip().rstrip(",") + closing)
    except (ValueError, RecursionError):
        return None
    if not value.keys() & _FIELDS:
        return None
    return _Found(value=value, before=text[:at], is_whole=False)


def _missing_brackets(text: str) -> str | None:
    """What would close all that a text leaves open; None if it ends inside of a string, or closes what it never opened."""
    stack: list[str] = []
    is_quoted = is_escaped = False
    for char in text:
        if is_quoted:
            if is_escaped:
                is_escaped = False
            elif char == "\\":
                is_escaped = True
            elif char == '"':
                is_quoted = False
        elif char == '"':
            is_quoted = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]" and (not stack or stack.pop() != char):
            return None
    if is_quoted or len(stack) > _MAX_MENDED_DEPTH:
        return None
    return "".join(reversed(stack))


def _is_text(words: str) -> bool:
    words = words.strip()
    return bool(words) and words not in _FENCES


def _why_none(text: str) -> str:
    at = text.find("{")
    if at < 0:
        return "there is no JSON object in it"
    try:
        json.loads(text[at:], strict=False)
    except RecursionError:
        return "the JSON is nested too deeply"
    except ValueError as error:
        return f"the JSON is not valid: {error!s:.200}"
    return "there is no JSON object in it"
