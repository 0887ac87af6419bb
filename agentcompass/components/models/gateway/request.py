"""From a program's request to the one that the endpoint gets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from agentcompass.data import frozen
from agentcompass.records import JSON

COUNT_TOKENS: Final = "count_tokens"
"""Below the messages of the `anthropic` protocol: what a request would use; no model call."""

_KEPT_HEADERS: Final = re.compile(
    r"accept|user-agent|anthropic-version|anthropic-beta|openai-beta|x-(stainless|claude-code|codex)-[a-z-]+"
)
"""What says in which form a client speaks. Others could say whose account is used, or what an endpoint should trust."""
_KEPT_QUERY: Final = "beta"
"""By which the Anthropic clients name the form of a request, beside `anthropic-beta`."""
_PROGRAMS: Final = frozenset({"model", "stream"})
"""Parts of a request that no parameter of the user's is for."""
_SILENT: Final = frozenset({"openai-chat", "openai-completions"})
"""Protocols whose streams tell usage only when they are asked to."""


@frozen(kw_only=True)
class Outbound:
    """What the endpoint is asked."""

    body: Mapping[str, JSON]
    hides_usage: bool
    """The program has not asked to be told usage in its stream, and may not expect it."""


def outbound(
    asked: Mapping[str, JSON], params: Mapping[str, JSON], *, model: str, protocol: str
) -> Outbound:
    """Return what the endpoint is asked for a program.

    The user's parameters win over the program's, and the run's model over whatever it names.

    Args:
        asked: By the program.
        params: Of the user.
        model: The id of the run's model.
        protocol: Of both.
    """
    wanted = {name: value for name, value in params.items() if name not in _PROGRAMS}
    body = {**asked, **wanted, "model": model}
    hides_usage = False
    if protocol in _SILENT and body.get("stream") is True:
        options = body.get("stream_options")
        options = options if isinstance(options, Mapping) else {}
        hides_usage = not options.get("include_usage")
        body["stream_options"] = {**options, "include_usage": True}
    return Outbound(body=body, hides_usage=hides_usage)


def headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of a program's headers that go on; names in lower case. Values beyond ASCII do not: none is of a client."""
    return {
        name: value
        for name, value in headers.items()
        if _KEPT_HEADERS.fullmatch(name) and value.isascii() and value.isprintable()
    }


def query_of(query: str) -> dict[str, str]:
    """Return what of a program's query goes on."""
    found = parse_qs(query).get(_KEPT_QUERY, [])
    return {_KEPT_QUERY: found[-1]} if found else {}


def key_of(headers: Mapping[str, str]) -> str:
    """Return what a program authenticates with: `x-api-key`, else a bearer token; empty if there is neither."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def resource_of(path: str) -> str:
    """Return what a path names: without the version, and without slashes around it."""
    names = path.strip("/").split("/")
    return "/".join(names[1:] if names[0] == "v1" else names)
