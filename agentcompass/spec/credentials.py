"""Secrets inside URLs: user and password, and parameters such as `api-key`, `sig` or `access_token`.

Source of the syntax: RFC 3986, sections 3.2.1 and 3.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote, unquote_plus

from agentcompass.data import frozen
from agentcompass.secrets import MASK
from agentcompass.spec.secret_names import is_secret_variable

_USERINFO: Final = re.compile(
    r"(?<=://)(?P<user>[^\s/?#:]*)(?::(?P<password>[^\s/?#]*))?@(?=[^\s/?#@]*(?:[/?#\s]|$))"
)
_QUERY: Final = re.compile(r"://[^\s?#\"'<>\\]*[?#](?P<query>[^\s\"'<>\\]*)")
_PARAMETER: Final = re.compile(r"(?P<name>[^=&;#?]+)=(?P<value>[^&;#]*)")
_HARMLESS: Final = re.compile(
    r"(.*[-_])?(version|model|deployment|engine|region|location|project|name|format|mode|limit|timeout|stream|beta)",
    re.IGNORECASE,
)


@frozen(kw_only=True)
class Place:
    """A part of a text that holds what one does not write down."""

    start: int
    end: int
    widest_start: int
    """Where masking begins if nothing of it is a reference: a user name goes with its password."""
    secrets: tuple[str, ...] = ()
    """The values that must not appear anywhere, in the forms in which they travel."""
    is_certain: bool = True
    """False for a parameter of no telling name: secret only if somebody took care to give it by reference."""


def places_in(text: str) -> Iterator[Place]:
    """Find what is secret in all URLs of a text: a password, or a lone user; the value of each parameter."""
    if "://" not in text:
        return
    for found in _USERINFO.finditer(text):
        user, password = found["user"], found["password"]
        secret = password or user
        # the base64 of the pair is what goes over the wire
        pair = f"{unquote(user)}:{unquote(password or '')}"
        yield Place(
            start=found.end() - 1 - len(secret),
            end=found.end() - 1,
            widest_start=found.start(),
            secrets=(secret, unquote(secret), pair),
        )
    for url in _QUERY.finditer(text):
        for found in _PARAMETER.finditer(text, *url.span("query")):
            name, value = unquote_plus(found["name"]), found["value"]
            is_certain = is_secret_variable(name)
            if value and (is_certain or not _HARMLESS.fullmatch(name)):
                forms = (value, value.rstrip(").,!"), unquote(value), unquote_plus(value))
                start, end = found.span("value")
                yield Place(
                    start=start, end=end, widest_start=start, secrets=forms, is_certain=is_certain
                )


def without_credentials(text: str) -> str:
    """Return text in which user, password and secret parameters of every URL are masked."""
    parts, end = [], 0
    for place in sorted(places_in(text), key=lambda place: place.start):
        if place.is_certain and place.start >= end:
            parts += [text[end : place.widest_start], MASK]
            end = place.end
    return "".join([*parts, text[end:]])


def without_userinfo(url: str) -> str:
    """Return a URL without user name and password."""
    return _USERINFO.sub("", url)
