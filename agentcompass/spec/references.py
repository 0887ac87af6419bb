"""`${NAME}` and `${NAME:-default}` in written values, and which values are secret.

`$${` is a literal `${`. The value of a variable is taken as it is: references inside it are not followed. A variable
that is not set leaves a fault on the value, which is a problem only for whoever uses the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, final

import attrs

from agentcompass.data import frozen
from agentcompass.secrets import MASK, Secret
from agentcompass.spec.credentials import Place, places_in
from agentcompass.spec.secret_names import (
    is_clearly_secret_name,
    is_secret_name,
    is_secret_variable,
)
from agentcompass.spec.tree import Written

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")
_SCHEME: Final = re.compile(r"(Bearer|Basic|Token)\s+", re.IGNORECASE)
"""Before a secret in a header: how it is sent."""


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
        """What came from secret fields, secret variables and URLs so far; empty values are left out."""
        return tuple(self._secrets.values())

    def collect(self, value: str, reference: str | None = None) -> None:
        """Count a value among the secrets; `reference` is how it was given."""
        known = self._secrets.get(value)
        if value and (known is None or known.reference is None):
            self._secrets[value] = Secret(value, reference)

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
            self.collect(node.data.reveal(), node.data.reference)
            return attrs.evolve(node, is_secret=True, stored=node.data.reference)
        if isinstance(node.data, str):
            return self._follow_text(node, node.data, is_secret=is_secret)
        return self._number(node, is_secret=is_secret)

    def _number(self, node: Written, *, is_secret: bool) -> Written:
        """A number is secret only where nothing else can be meant: `password: 123456`."""
        key = re.split(r"[.\[]", node.origin.path)[-1]
        if not (is_secret and node.text and is_clearly_secret_name(key)):
            return node
        self.collect(node.text)
        return attrs.evolve(node, is_secret=True)

    def _follow_text(self, node: Written, text: str, *, is_secret: bool) -> Written:
        if not is_secret and "${" not in text and "://" not in text:
            return node
        found = _Text(text, self._environ, is_secret=is_secret)
        for piece in found.secret_pieces():
            self.collect(piece.value, f"${{{piece.name}}}")
        for place in found.places:
            for value in place.secrets:
                self.collect(value)
        stored = found.stored()
        if is_secret:
            self.collect(found.value, stored if found.has_reference else None)
            self.collect(_SCHEME.sub("", found.value))
        is_in_clear = not found.has_reference and (is_secret or stored == text)
        return attrs.evolve(
            node,
            data=found.value,
            fault=found.fault,
            is_secret=is_secret,
            stored=None if is_in_clear else stored,
            counted=None if is_in_clear else found.counted(),
        )


@frozen(kw_only=True)
class _Piece:
    """A part of a text: a reference, or what stands between two."""

    written: str
    value: str
    start: int
    """Where its value stands in the whole."""
    name: str | None = None
    """Of the variable; None for a literal part."""
    default: str | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.value)


@final
class _Text:
    """One string with its references followed, and what of it may be written down."""

    def __init__(self, text: str, environ: Mapping[str, str], *, is_secret: bool) -> None:
        self._environ = environ
        self._is_secret = is_secret
        self._faults: list[str] = []
        self.pieces: list[_Piece] = []
        end = 0
        for match in _REFERENCE.finditer(text):
            self._add(text[end : match.start()], text[end : match.start()])
            self._add_reference(match)
            end = match.end()
        self._add(text[end:], text[end:])
        self.has_reference = any(piece.name for piece in self.pieces)
        self.value = "".join(piece.value for piece in self.pieces)
        self.places = [place for place in places_in(self.value) if self._counts(place)]

    @property
    def fault(self) -> str | None:
        """Why the text cannot be used; None if it can."""
        return self._faults[0] if self._faults else None

    def secret_pieces(self) -> Iterable[_Piece]:
        """The references to what is secret: the variable's name or the place says so."""
        return [piece for piece in self.pieces if piece.name and self._is_secret_piece(piece)]

    def stored(self) -> str:
        """The text with its references; other text only if it cannot be part of a secret."""
        return "".join(
            self._reference(piece) if piece.name else self._literal(piece, piece.written)
            for piece in self.pieces
        )

    def counted(self) -> str:
        """The text with values for those references that are not secret, and masks for all that is."""
        return "".join(
            MASK
            if piece.name and self._is_secret_piece(piece)
            else self._literal(piece, piece.value)
            for piece in self.pieces
        )

    def _literal(self, piece: _Piece, text: str) -> str:
        if not self._is_secret:
            return self._clear(piece, text)
        return MASK if _SCHEME.sub("", text).strip() else text

    def _clear(self, piece: _Piece, text: str) -> str:
        """A piece's text without those parts that lie in a secret place."""
        if len(text) != len(piece.value):  # `$${`: two characters of the value, none of them secret
            return text
        parts, end = [], 0
        for place in self.places:
            begin = place.start if self._is_referenced(place) else place.widest_start
            if begin < piece.end and piece.start < place.end:
                start = max(begin - piece.start, end)
                parts += [text[end:start], MASK]
                end = min(place.end - piece.start, len(text))
        return "".join([*parts, text[end:]])

    def _reference(self, piece: _Piece) -> str:
        """A reference as it was written; without a default that may be secret."""
        default = piece.default
        is_clear = default is not None and not any(p.is_certain for p in places_in(default))
        if is_clear and not self._is_secret_piece(piece):
            return piece.written
        return f"${{{piece.name}}}"

    def _is_secret_piece(self, piece: _Piece) -> bool:
        return (
            self._is_secret
            or is_secret_variable(piece.name or "")
            or any(place.start <= piece.start and piece.end <= place.end for place in self.places)
        )

    def _counts(self, place: Place) -> bool:
        """Whether a place is one: by its name, or because a reference stands in it."""
        return place.is_certain or self._is_referenced(place)

    def _is_referenced(self, place: Place) -> bool:
        return any(
            piece.name and place.start <= piece.start < piece.end <= place.end
            for piece in self.pieces
        )

    def _add(self, written: str, value: str, **more: str | None) -> None:
        if written:
            start = self.pieces[-1].end if self.pieces else 0
            self.pieces.append(_Piece(written=written, value=value, start=start, **more))

    def _add_reference(self, match: re.Match[str]) -> None:
        name, default = match[1], match[2]
        if match[0] == "$${":
            self._add("$${", "${")
            return
        if name is None:
            self._faults.append(
                "`${` starts no reference: write ${NAME}, ${NAME:-default}, or $${ for the characters"
            )
            self._add(match[0], match[0])
            return
        value = self._environ.get(name, "")
        if not value and default is not None:
            value = default
        elif name not in self._environ:
            self._faults.append(f"the environment variable {name!r} is not set")
        self._add(match[0], value, name=name, default=default)
