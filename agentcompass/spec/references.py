"""`${NAME}` and `${NAME:-default}` in written values, and which values are secret.

`$${` is a literal `${`. The value of a variable is taken as it is: references inside it are not followed. A variable
that is not set leaves a fault on the value, which is a problem only for whoever uses the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final
from urllib.parse import unquote

import attrs

from agentcompass.secrets import MASK, Secret
from agentcompass.spec.tree import Written

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")
_USERINFO: Final = re.compile(r"(?<=://)(?P<user>[^\s/?#@:]*)(?::(?P<password>[^\s/?#@]*))?@")

_SECRET_NAME: Final = re.compile(
    r"(.*_)?(api_?keys?|passwords?|passwd|secrets?|authorization|cookie|credentials)|token|.*_token|.*_key"
)
_CLEARLY_SECRET: Final = re.compile(r"(.*_)?(api_?keys?|passwords?|passwd|secrets?)")
_NOT_SECRET: Final = re.compile(
    r"(.*_)?("
    r"(sort|group|primary|foreign|partition|lookup|dict|cache|public|answer|question|input|output|prompt|label|id|task"
    r"|target|text|column|field|metric|score|category|json|map|record|row|name)_key"
    r"|(max|min|per|stop|start|begin|end|eos|bos|eot|pad|unk|mask|sep|cls|special|image|first|last|next|new)_token"
    r")"
)


def is_secret_name(name: str) -> bool:
    """Whether a field, header or variable of this name holds a secret: `api_key`, `*_token`, `*_key`, `*password`, `*secret`.

    Names that usually mean something else (`sort_key`, `eos_token`) do not count: their values would vanish from all logs.
    """
    words = _words(name)
    return _SECRET_NAME.fullmatch(words) is not None and _NOT_SECRET.fullmatch(words) is None


def without_userinfo(text: str) -> str:
    """Return text in which user and password of every URL are masked."""
    return _USERINFO.sub(f"{MASK}@", text)


def escape(text: str) -> str:
    """Return text as it must be written so that `${` in it is no reference."""
    return text.replace("${", "$${")


@final
class References:
    """Follows the references of trees, and collects every secret on the way.

    Args:
        environ: The variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._secrets: dict[str, Secret] = {}

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What came from secret fields, secret variables and URL userinfo so far; empty values are left out."""
        return tuple(self._secrets.values())

    def follow(self, node: Written, *, is_secret: bool = False) -> Written:
        """Return the tree with all references replaced by values.

        Args:
            node: As written.
            is_secret: Whether the key that holds it says so; passed on to everything below.
        """
        if isinstance(node.data, dict):
            items = {
                key: self.follow(item, is_secret=is_secret or is_secret_name(key))
                for key, item in node.data.items()
            }
            return attrs.evolve(node, data=items)
        if isinstance(node.data, tuple):
            data = tuple(self.follow(item, is_secret=is_secret) for item in node.data)
            return attrs.evolve(node, data=data)
        if isinstance(node.data, Secret):
            self._collect(node.data.reveal(), node.data.reference)
            return attrs.evolve(node, is_secret=True, reference=node.data.reference)
        if isinstance(node.data, str):
            return self._follow_text(node, node.data, is_secret=is_secret)
        return self._number(node, is_secret=is_secret)

    def _number(self, node: Written, *, is_secret: bool) -> Written:
        """A number is secret only where nothing else can be meant: `password: 123456`."""
        key = re.split(r"[.\[]", node.origin.path)[-1]
        if not (is_secret and node.text and _CLEARLY_SECRET.fullmatch(_words(key))):
            return node
        self._collect(node.text)
        return attrs.evolve(node, is_secret=True)

    def _follow_text(self, node: Written, text: str, *, is_secret: bool) -> Written:
        found = _Expansion(text, self._environ)
        reference = found.reference(hide_literals=is_secret) if found.names else None
        for name, value in found.secret_values.items():
            self._collect(value, f"${{{name}}}")
        for user, password in _USERINFO.findall(found.value):
            self._collect(password or user)
            self._collect(unquote(password or user))
            self._collect(
                f"{unquote(user)}:{unquote(password)}"
            )  # whose base64 is what goes over the wire
        if is_secret:
            self._collect(found.value, reference)
        secret = is_secret or bool(found.secret_values)
        return attrs.evolve(
            node,
            data=found.value,
            fault=found.fault,
            is_secret=secret,
            reference=reference if secret else None,
        )

    def _collect(self, value: str, reference: str | None = None) -> None:
        known = self._secrets.get(value)
        if value and (known is None or known.reference is None):
            self._secrets[value] = Secret(value, reference)


@final
class _Expansion:
    """One string with its references followed."""

    def __init__(self, text: str, environ: Mapping[str, str]) -> None:
        self._text = text
        self._environ = environ
        self.names: list[str] = []
        self.secret_values: dict[str, str] = {}
        """By name, the values of variables whose names say secret."""
        self.fault: str | None = None
        self.value = _REFERENCE.sub(self._replace, text) if "${" in text else text

    def reference(self, *, hide_literals: bool) -> str:
        """The text with its references, without their defaults; other text only if it cannot be part of a secret."""
        parts, end = [], 0
        for match in _REFERENCE.finditer(self._text):
            parts.append(self._literal(self._text[end : match.start()], hide=hide_literals))
            parts.append(f"${{{match[1]}}}" if match[1] else match[0])
            end = match.end()
        return "".join([*parts, self._literal(self._text[end:], hide=hide_literals)])

    @staticmethod
    def _literal(text: str, *, hide: bool) -> str:
        return MASK if hide and text.strip() and text.strip() not in {"Bearer", "Basic"} else text

    def _replace(self, match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if match[0] == "$${":
            return "${"
        if name is None:
            self.fault = "`${` starts no reference: write ${NAME}, ${NAME:-default}, or $${ for the characters"
            return match[0]
        self.names.append(name)
        value = self._environ.get(name, "")
        if not value and default is not None:
            value = default
        elif name not in self._environ:
            self.fault = f"the environment variable {name!r} is not set"
        if is_secret_name(name):
            self.secret_values[name] = value
        return value


def _words(name: str) -> str:
    """`apiKey`, `X-Api-Key` and `API_KEY` are `api_key`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
