"""Secret values: a type that never prints, and a scrubber that removes known values from text.

Scrubbing is by *value*, where text is written. Nothing is altered for its name: a result field called
`max_token` is left alone. A value is found as it is, inside JSON and Python literals (also of
these in each other), percent-encoded, and as base64 of just itself. It is not found where it was mixed with other text before it was
encoded (base64 of `user:key`), nor as hexadecimal digits, a hash, reversed or compressed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, final
from urllib.parse import quote, quote_plus

MASK: Final = "[secret]"
MIN_LENGTH: Final = 6
"""Shorter values are not scrubbed: masking every `x` of a log would hide the log, not the secret."""

_MORE: Final = " ..."
_WORDS: Final = re.compile(r".*\S(?=\s)", re.DOTALL)
_ESCAPE: Final = re.compile(r"%[0-9A-F]{2}")


@final
class Secret:
    """A value that shows only when asked with `reveal()`.

    Args:
        value: The secret itself.
        reference: How the user wrote it (`${OPENAI_API_KEY}`), which is what may be stored; None if given in clear.
    """

    __slots__ = ("_value", "reference")

    def __init__(self, value: str, reference: str | None = None) -> None:
        self._value = value
        self.reference = reference

    def reveal(self) -> str:
        """Return the value, for the one place that sends it."""
        return self._value

    @property
    def written(self) -> str:
        """What may stand in a file: the reference if there was one, else a mask."""
        return self.reference or MASK

    def __repr__(self) -> str:
        return f"Secret({self.written!r})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is never pickled")


def beginning(text: str, limit: int) -> str:
    """Return a text, or its beginning of at most so many characters, cut between words.

    For what is scrubbed later: half a secret would not be found.
    """
    if len(text) <= limit:
        return text
    words = _WORDS.match(text, 0, limit - len(_MORE) + 1)
    return f"{'' if words is None else words[0]}{_MORE}"


@final
class Scrubber:
    """Replaces every registered value, in each encoding it may travel in, by `[secret]`.

    One belongs to one run. Registration is cheap and may happen at any time, from any thread.
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._byte_forms: tuple[bytes, ...] = ()
        self._byte_pattern: re.Pattern[bytes] | None = None

    def register(self, *values: str | Secret | None) -> None:
        """Make values known; None, and values shorter than `MIN_LENGTH` characters, are ignored."""
        for item in values:
            text = item.reveal() if isinstance(item, Secret) else item
            if text and len(text) >= MIN_LENGTH:
                self._values |= _encodings(text)
        longest_first = sorted(self._values, key=len, reverse=True)
        if longest_first:
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            self._forms = tuple(longest_first)
            self._byte_forms = tuple(sorted(map(_bytes, self._values), key=len, reverse=True))
            self._byte_pattern = re.compile(b"|".join(map(re.escape, self._byte_forms)))

    def scrub(self, text: str) -> str:
        """Return `text` without any registered value."""
        pattern = self._pattern
        # Plain searches first: ten times as fast as the pattern on long text, which hardly ever holds a secret.
        if pattern is None or not any(form in text for form in self._forms):
            return text
        return pattern.sub(MASK, text)

    def found_in(self, text: str) -> list[tuple[int, int]]:
        """Return where registered values stand, each from where to where."""
        if self._pattern is None or not any(form in text for form in self._forms):
            return []
        return [found.span() for found in self._pattern.finditer(text)]

    @property
    def longest(self) -> int:
        """Bytes of the longest form of a registered value."""
        return max(map(len, self._byte_forms), default=0)

    def holds_secret(self, data: bytes) -> bool:
        """Whether there is a registered value in what a program wrote, taken as UTF-8."""
        return any(form in data for form in self._byte_forms)

    def scrub_bytes(self, data: bytes) -> bytes:
        """The same as `scrub` for what a program wrote, taken as UTF-8."""
        return b"".join(self.scrub_pieces([data])) if self.holds_secret(data) else data

    def scrub_pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same for what comes in pieces, across which a value may be cut."""
        pattern, held = self._byte_pattern, b""
        if pattern is None:
            yield from pieces
            return
        for piece in pieces:
            held += piece
            yield from (scrubbed := _scrubbed(pattern, held, len(held) - self.longest + 1))[:-1]
            held = scrubbed[-1]
        yield b"".join(_scrubbed(pattern, held, len(held)))


def _scrubbed(pattern: re.Pattern[bytes], data: bytes, until: int) -> list[bytes]:
    """Mask what begins before a place. The last part is what stands behind that, or behind what was masked last."""
    parts, done = [], 0
    for found in pattern.finditer(data):
        if found.start() >= until:
            break
        parts += [data[done : found.start()], MASK.encode()]
        done = found.end()
    rest = max(done, until, 0)
    return [*parts, data[done:rest], data[rest:]]


def _encodings(value: str) -> set[str]:
    """The forms in which a value reaches files; docs/results.md lists them for users."""
    quoted = _quotations(value)
    forms = {value, *quoted, *(form for one in quoted for form in _quotations(one))}
    data = _bytes(value)
    for percent in (
        quote(data, safe=""),
        quote(data),
        quote_plus(data),
        quote_plus(data, safe="/"),
    ):
        forms |= {percent, _ESCAPE.sub(lambda match: match[0].lower(), percent)}
    for base64_text in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        forms.add(base64_text.decode().rstrip("="))
    return {form for form in forms if len(form) >= MIN_LENGTH}


def _quotations(value: str) -> set[str]:
    """A value as it stands within quotation marks."""
    quoted = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    beside_a_double_one = repr(f'"{value}')  # which has Python mask single ones
    return {*(text[1:-1] for text in quoted), beside_a_double_one[2:-1]}


def _bytes(value: str) -> bytes:
    """The value as it travels: what the system gave us undecoded goes out as the same bytes."""
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
