"""Which names say that a value is secret."""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(.*_)?(api_?keys?|passwords?|passwd|secrets?|authorization|cookie|credentials)|token|.*_token|.*_key"
)
_CLEARLY_SECRET: Final = re.compile(r"(.*_)?(api_?keys?|passwords?|passwd|secrets?)")
_SECRET_ELSEWHERE: Final = re.compile(
    r"key|keys|(.*_)?(auth|credential|jwt|pass|pat|pwd|sig|signature)"
)
_NOT_SECRET: Final = re.compile(
    r"(.*_)?("
    r"(sort|group|primary|foreign|partition|lookup|dict|cache|public|answer|question|input|output|prompt|label|id|task"
    r"|target|text|column|field|metric|score|category|json|map|record|row|name)_key"
    r"|(max|min|per|stop|start|begin|end|eos|bos|eot|pad|unk|mask|sep|cls|special|image|first|last|next|new)_token"
    r")"
)


def is_secret_name(name: str) -> bool:
    """Whether a field or header of this name holds a secret: `api_key`, `*_token`, `*_key`, `*password`, `*secret`.

    Names that usually mean something else (`sort_key`, `eos_token`) do not count: their values would vanish from all logs.
    """
    words = _words(name)
    return _SECRET.fullmatch(words) is not None and _NOT_SECRET.fullmatch(words) is None


def is_clearly_secret_name(name: str) -> bool:
    """Whether even a number under this name is secret: `password: 123456`."""
    return _CLEARLY_SECRET.fullmatch(_words(name)) is not None


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable or a parameter of a URL of this name holds a secret.

    There, unlike in fields, `key`, `sig`, `auth` and the like mean nothing else.
    """
    return is_secret_name(name) or _SECRET_ELSEWHERE.fullmatch(_words(name)) is not None


def _words(name: str) -> str:
    """`apiKey`, `X-Api-Key` and `API_KEY` are `api_key`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
