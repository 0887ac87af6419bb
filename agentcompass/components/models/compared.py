"""What of a request a replay compares: all that the model reads, and what governs how it answers. Pure.

Left out are the labels by which a client or an endpoint keeps requests apart, and texts of which a harness says that they
differ from run to run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from agentcompass.errors import ConfigurationError
from agentcompass.records import JSON

Varying: TypeAlias = Sequence[re.Pattern[str]]
"""Each matches a text that says something else in each run."""

VARIES: Final = "(varies)"
"""What stands in the place of such a text."""
_FORM: Final = frozenset({"stream", "stream_options"})
"""Say in which form an answer comes; clients ask again without a stream where one broke off."""
_OPENAI_LABELS: Final = _FORM | {"metadata", "user", "safety_identifier", "prompt_cache_key"}
"""Source: OpenAI API reference; the last three are said to identify users and to find cached prompts."""
_LABELS: Final[Mapping[str, frozenset[str]]] = {
    "openai-chat": _OPENAI_LABELS,
    "openai-completions": _OPENAI_LABELS,
    # `client_metadata` is no part of the API reference: Codex sends ids of the session and of the installation in it.
    "openai-responses": _OPENAI_LABELS | {"client_metadata"},
    # Source: Anthropic API reference: it has but an id of the user, which the endpoint may use to detect abuse.
    "anthropic": _FORM | {"metadata"},
}
"""By protocol: fields of a request that the model never sees."""
_ITEMS: Final = "input"
"""In requests of `openai-responses`: the list of items, whose ids are labels too, unless one refers to another by it."""
_REFERENCE: Final = "item_reference"


def patterns(texts: Sequence[str]) -> Varying:
    """Read regular expressions.

    Raises:
        ConfigurationError: Something is none.
    """
    found = []
    for text in texts:
        try:
            found.append(re.compile(text))
        except re.error as error:
            raise ConfigurationError(
                f"{text!r} is no regular expression ({error}): it is to match what varies in an agent's requests"
            ) from error
    return tuple(found)


def compared(
    protocol: str, request: Mapping[str, JSON], varying: Varying = ()
) -> Mapping[str, JSON]:
    """Return what of a request is compared.

    Args:
        protocol: Of the request.
        request: Its body.
        varying: Texts that are overlooked, wherever they stand.
    """
    labels = _LABELS.get(protocol, frozenset())
    kept: dict[str, JSON] = {name: value for name, value in request.items() if name not in labels}
    items = kept.get(_ITEMS)
    if protocol == "openai-responses" and isinstance(items, list):
        kept[_ITEMS] = [_without_id(item) for item in items]
    return kept if not varying else {name: _settled(kept[name], varying) for name in kept}


def _without_id(item: JSON) -> JSON:
    if not isinstance(item, Mapping) or item.get("type") == _REFERENCE:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _settled(value: JSON, varying: Varying) -> JSON:
    if isinstance(value, str):
        for pattern in varying:
            value = pattern.sub(VARIES, value)
        return value
    if isinstance(value, Mapping):
        return {name: _settled(item, varying) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_settled(item, varying) for item in value]
    return value
