"""The reward that a verifier wrote: `reward.txt` or `reward.json`, read strictly. No reward is no score. Pure.

Source: https://harborframework.com/docs/task-format ("Tests").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, NoReturn

from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError
from agentcompass.records import JSON

TEXT_FILE: Final = "reward.txt"
JSON_FILE: Final = "reward.json"
MAX_BYTES: Final = 1 << 20
"""Of each of the two files."""
_SHOWN: Final = 80


@frozen(kw_only=True)
class Reward:
    """What a verifier gave."""

    value: float
    """From 0 to 1."""
    metrics: Mapping[str, JSON]
    """Whatever else was in `reward.json`."""


def parse(text: bytes | None, data: bytes | None, key: str) -> Reward:
    """Return the reward.

    Where both files are there they have to agree; a `reward.json` without `key` leaves it to `reward.txt`.

    Args:
        text: What is in `reward.txt`; None if it is not there. Read up to one byte more than `MAX_BYTES`.
        data: Likewise of `reward.json`.
        key: Of the reward in `reward.json`.

    Raises:
        EvaluatorError: There is no reward (code `no-reward`), or what is there is none (`bad-reward`).
    """
    if text is None and data is None:
        raise EvaluatorError(
            f"the verifier wrote neither {TEXT_FILE} nor {JSON_FILE}",
            code="no-reward",
            retryable=False,
        )
    for name, content in ((TEXT_FILE, text), (JSON_FILE, data)):
        if content is not None and len(content) > MAX_BYTES:
            raise _bad(f"{name} is longer than {MAX_BYTES} bytes")
    number = None if text is None else _number(text)
    metrics = {} if data is None else _metrics(data)
    if key in metrics:
        named = metrics.pop(key)
        if isinstance(named, bool) or not isinstance(named, int | float):
            raise _bad(f"{JSON_FILE}: {key!r} is no number: {_shown(named)}")
        if number is not None and number != named:
            raise _bad(f"{TEXT_FILE} says {number:g} and {JSON_FILE} says {named:g}")
        number = float(named)
    if number is None:
        raise _bad(f"{JSON_FILE} has no {key!r}, only {', '.join(sorted(metrics)) or 'nothing'}")
    if not 0.0 <= number <= 1.0:
        raise _bad(f"the reward is {number:g}, which is not from 0 to 1")
    return Reward(value=number, metrics=metrics)


def _number(content: bytes) -> float:
    text = content.decode(errors="replace").strip()
    try:
        # float() takes more than numbers as they are written: `1_0`, digits of other scripts
        number = float(text) if "_" not in text and text.isascii() else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _bad(f"{TEXT_FILE} is no number: {_shown(text)}" if text else f"{TEXT_FILE} is empty")
    return number


def _metrics(content: bytes) -> dict[str, JSON]:
    try:
        found = json.loads(
            content.decode(),
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except (ValueError, RecursionError) as error:
        raise _bad(f"{JSON_FILE} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _bad(f"{JSON_FILE} is no object: {_shown(found)}")
    return found


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it says something twice")
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _refuse(text)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _bad(sentence: str) -> EvaluatorError:
    return EvaluatorError(sentence, code="bad-reward", retryable=False)
