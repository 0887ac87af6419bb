"""List prices of well-known models at their makers' own endpoints, as of `AS_OF`. Pure.

For ordinary calls only: the standard tier, the default lifetime of cache entries, no tools that the endpoint runs. A
model, a kind of token or a length of input that is not here has no known price. `prices:` of the configuration wins.

Sources: https://platform.claude.com/docs/en/about-claude/pricing and
https://developers.openai.com/api/docs/pricing with its page for each model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agentcompass.data import frozen

AS_OF: Final = "2026-11"
"""Month in which the lists were read. Makers change prices without a new name of the model."""

_SNAPSHOT: Final = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})")


@frozen(kw_only=True)
class Listed:
    """One line of a list."""

    rates: Mapping[str, float]
    """US dollars per million tokens, by kind of token."""
    max_input_tokens: int | None = None
    """Longer input costs more, in a way that is not stated here."""


def _line(
    given: float,
    cached: float | None,
    output: float,
    *,
    write: float | None = None,
    up_to: int | None = None,
) -> Listed:
    rates = {"input": given, "cached_input": cached, "cache_write": write, "output": output}
    known = {kind: rate for kind, rate in rates.items() if rate is not None}
    return Listed(rates=known, max_input_tokens=up_to)


_LONG: Final = 272_000
_FABLE: Final = _line(10, 1.00, 50, write=12.50)
_OPUS: Final = _line(5, 0.50, 25, write=6.25)
_SONNET: Final = _line(3, 0.30, 15, write=3.75)
_GPT_5: Final = _line(1.25, 0.125, 10)

LISTS: Final[Mapping[str, Mapping[str, Listed]]] = {
    "api.anthropic.com": {
        "claude-fable-5-1": _line(10, 0.25, 50, write=12.50),
        "claude-fable-5": _FABLE,
        "claude-opus-5-5": _line(4, 0.20, 20, write=5.00),
        "claude-opus-5": _OPUS,
        "claude-opus-4-8": _OPUS,
        "claude-opus-4-7": _OPUS,
        "claude-opus-4-6": _OPUS,
        "claude-opus-4-5": _OPUS,
        "claude-sonnet-5-5": _line(2, 0.10, 10, write=2.50),
        "claude-sonnet-5": _line(2, 0.20, 10, write=2.50),
        "claude-sonnet-4-6": _SONNET,
        "claude-sonnet-4-5": _SONNET,
        "claude-haiku-5-5": _line(0.10, 0.01, 0.50, write=0.125, up_to=100_000),
        "claude-haiku-4-5": _line(1, 0.10, 5, write=1.25),
    },
    "api.openai.com": {
        "gpt-6.2-sol": _line(2, 0.10, 10, write=2.50, up_to=_LONG),
        "gpt-6.1-sol": _line(2, 0.10, 10, write=2.50, up_to=_LONG),
        "gpt-6.1-terra": _line(1, 0.05, 5, write=1.25, up_to=_LONG),
        "gpt-6-astra": _line(10, 1.00, 50, write=12.50, up_to=_LONG),
        "gpt-6-sol": _line(2, 0.20, 10, write=2.50, up_to=_LONG),
        "gpt-6-luna": _line(0.10, 0.01, 0.50, write=0.125, up_to=_LONG),
        "gpt-5.6-sol": _line(4, 0.40, 20, write=5.00, up_to=_LONG),
        "gpt-5.6-terra": _line(2, 0.20, 12, write=2.50, up_to=_LONG),
        "gpt-5.6-luna": _line(0.20, 0.02, 1.20, write=0.25, up_to=_LONG),
        "gpt-5.5": _line(5, 0.50, 30, up_to=_LONG),
        "gpt-5.4": _line(2.50, 0.25, 15, up_to=_LONG),
        "gpt-5.4-mini": _line(0.75, 0.075, 4.50),
        "gpt-5.4-nano": _line(0.20, 0.02, 1.25),
        "gpt-5.2": _line(1.75, 0.175, 14),
        "gpt-5.1": _GPT_5,
        "gpt-5": _GPT_5,
        "gpt-5-mini": _line(0.25, 0.025, 2),
        "gpt-5-nano": _line(0.05, 0.005, 0.40),
        "gpt-4.1": _line(2, 0.50, 8),
        "gpt-4.1-mini": _line(0.40, 0.10, 1.60),
        "gpt-4.1-nano": _line(0.10, 0.025, 0.40),
        "gpt-4o-2024-05-13": _line(5, None, 15),
        "gpt-4o": _line(2.50, 1.25, 10),
        "gpt-4o-mini": _line(0.15, 0.075, 0.60),
        "o3": _line(2, 0.50, 8),
        "o4-mini": _line(1.10, 0.275, 4.40),
    },
}


def listed(host: str, model_id: str) -> Listed | None:
    """Return the line of a model, by its id, or by that without the date of a snapshot; None if there is none."""
    models = LISTS.get(host, {})
    found = models.get(model_id)
    if found is not None:
        return found
    for name, line in models.items():
        if model_id.startswith(name) and _SNAPSHOT.fullmatch(model_id, len(name)):
            return line
    return None
