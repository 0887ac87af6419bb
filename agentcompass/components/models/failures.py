"""What went wrong with a call: statuses and error objects of endpoints as `ModelError`s with stable codes. Pure.

By status and error code. Words are looked at where there is no common code: for a context that was too long, and for
reasoning that does not fit the conversation any more.

Sources: the error pages of the OpenAI and Anthropic APIs, and the error objects that vLLM, SGLang, llama.cpp, Ollama,
text-generation-inference and the larger gateways were seen to send.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, final

from agentcompass.data import frozen
from agentcompass.errors import ModelError
from agentcompass.records import JSON
from agentcompass.secrets import Scrubber

MAX_WORDS: Final = 2000
"""Characters kept of what an endpoint says about an error."""

_ESCAPE_SEQUENCE: Final = re.compile(
    r"(\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b."
)
"""ECMA-48 control sequences, operating system commands, and single escapes."""

_TOO_LONG: Final = re.compile(
    r"context[ _](length|window|size|limit)|maximum model length|(prompt|input) is too long"
    r"|token count.{0,80}exceeds|tokens \+ `?max_new_tokens|too many (input |prompt )?tokens",
    re.IGNORECASE,
)
_NO_MODEL: Final = re.compile(
    r"model\b.{0,200}\b(not found|does not exist|not exist)|^model: \S+$",
    re.IGNORECASE | re.DOTALL,
)
_STALE_REASONING: Final = re.compile(
    r"\bthinking\b.{0,200}\b(bound to a different|cannot be modified)|invalid `?signature`? in `?thinking",
    re.IGNORECASE | re.DOTALL,
)
"""Anthropic: a block of thinking belongs to the conversation and the model that it was made in."""

_QUOTA_CODES: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "access_terminated",
    }
)
_CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_MODEL_CODES: Final = frozenset({"model_not_found", "model_not_available", "invalid_model"})

_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Of an error that comes in a stream or with a 200, by its code or type, where it names no number."""

REASONING_REFUSED: Final = "reasoning-refused"
RATE_LIMITED: Final = "rate-limited"
"""Too many calls: of us, which is why all callers of the endpoint heed it."""
OVERLOADED: Final = "overloaded"
"""Too many calls of everybody: to make fewer would not help, and to wait does."""

_NOT_IMPLEMENTED: Final = frozenset({501, 505})
"""Of the 5xx, those that mean never instead of not now."""
_LATER: Final = frozenset({408, 409, 425})
_OVERLOADED: Final = frozenset({503, 529})


@final
@frozen
class Said:
    """What an endpoint answered in place of success."""

    status: int
    body: str
    """Without secrets."""


@final
class EndpointError(ModelError):
    """A `ModelError` with what the retry needs to know."""

    said: Said | None = None
    """None: the endpoint answered nothing, or something else than an error status."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool,
        hint: str | None = None,
        asked_seconds: float | None = None,
    ) -> None:
        super().__init__(message, code=code, retryable=retryable, hint=hint)
        self.asked_seconds = asked_seconds
        """How long the endpoint wants to be left alone; None if it did not say."""


def malformed(message: str) -> EndpointError:
    """An answer that is no answer. Another call may give one."""
    return EndpointError(
        f"the endpoint's answer cannot be used: {message}",
        code="malformed-response",
        retryable=True,
    )


def revoked() -> EndpointError:
    """The attempt's agent phase is over."""
    return EndpointError(
        "the model is no longer lent to this attempt", code="model-revoked", retryable=False
    )


def cannot_send(message: str) -> EndpointError:
    """A request that was never sent, because it cannot be."""
    return EndpointError(message, code="bad-request", retryable=False)


@final
@frozen
class Wording:
    """Makes what strangers say fit to be shown: no secret, nothing a terminal obeys, not too long."""

    scrubber: Scrubber

    def clean(self, text: str, limit: int = MAX_WORDS) -> str:
        """Return `text` on one line."""
        visible = "".join(map(_visible, _ESCAPE_SEQUENCE.sub("", text[: 16 * limit])))
        # only now: a control character inside a secret would have hidden it from the scrubber
        line = self.scrubber.scrub(" ".join(visible.split()))
        return line if len(line) <= limit else line[: limit - 1] + "…"


def _visible(character: str) -> str:
    """Nothing for what controls, reorders or is invisible, and for halves of characters; white space stays."""
    is_shown = character.isspace() or unicodedata.category(character) not in {"Cc", "Cf", "Cs"}
    return character if is_shown else ""


@final
@frozen(kw_only=True)
class ErrorObject:
    """What can be read from the body of an error, whatever its form."""

    words: str
    codes: frozenset[str]
    """Its code and type, as text."""
    status: int | None = None
    """The status that the body itself names, by number or by word."""

    @classmethod
    def read(cls, payload: JSON) -> ErrorObject:
        """Read an error that came as JSON."""
        if isinstance(payload, list) and payload:
            payload = payload[0]
        inner = payload.get("error", payload) if isinstance(payload, Mapping) else payload
        if not isinstance(inner, Mapping):
            return cls(words=_as_words(inner), codes=frozenset())
        words = next(
            (inner[key] for key in ("message", "detail", "error", "msg") if inner.get(key)), inner
        )
        named = [inner.get("code"), inner.get("type"), inner.get("status")]
        numbers = [
            _STATUSES.get(value.lower()) if isinstance(value, str) else value for value in named
        ]
        return cls(
            words=_as_words(words),
            codes=frozenset(value.lower() for value in named if isinstance(value, str)),
            status=next((n for n in numbers if type(n) is int and 400 <= n <= 599), None),
        )

    @classmethod
    def read_body(cls, body: bytes) -> ErrorObject:
        """Read the body of an answer with an error status; it may be anything."""
        try:
            return cls.read(json.loads(body))
        except (ValueError, RecursionError):
            return cls(words=body.decode(errors="replace"), codes=frozenset())


def _as_words(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def from_answer(
    status: int | None, error: ErrorObject, *, wording: Wording, asked_seconds: float | None = None
) -> EndpointError:
    """Return the error for an answer.

    Args:
        status: The HTTP status, or the one inside the body of a success that is none; None where there is no such.
        error: What the body says.
        wording: Cleans the endpoint's words.
        asked_seconds: What `Retry-After` says.
    """
    code, retryable, hint = _classify(500 if status is None else status, error)
    words = wording.clean(error.words) or "no explanation"
    return EndpointError(
        f"the endpoint answered {'an error' if status is None else status}: {words}",
        code=code,
        retryable=retryable,
        hint=hint,
        asked_seconds=asked_seconds,
    )


def _classify(status: int, error: ErrorObject) -> tuple[str, bool, str | None]:
    """The code, whether another try can help, and what the user can do."""
    if status in {402, 429} and (status == 402 or error.codes & _QUOTA_CODES):
        return "quota-exceeded", False, "The account behind the key has no credit left."
    if status == 429:
        return RATE_LIMITED, True, None
    if status in {401, 403}:
        return "unauthorized", False, "Check the API key, and whether it may use this model."
    if 300 <= status < 400:
        return "redirected", False, "Redirects are not followed: set base_url to the final address."
    if status in _LATER or (status >= 500 and status not in _NOT_IMPLEMENTED):
        if error.codes & _CONTEXT_CODES:
            return "context-exceeded", False, None
        return OVERLOADED if status in _OVERLOADED else "server-error", True, None
    return _rejected(status, error)


def _rejected(status: int, error: ErrorObject) -> tuple[str, bool, str | None]:
    if _STALE_REASONING.search(error.words[:MAX_WORDS]):
        return REASONING_REFUSED, False, None
    if error.codes & _CONTEXT_CODES or _TOO_LONG.search(error.words[:MAX_WORDS]):
        return "context-exceeded", False, None
    if is_about_model(error):
        return (
            "model-not-found",
            False,
            "Check the model's id against the endpoint's list of models.",
        )
    if status in {404, 405}:
        return "endpoint-not-found", False, "Check base_url: the server has no such path."
    return "bad-request", False, None


def is_about_model(error: ErrorObject) -> bool:
    """Whether an error says that there is no such model, as opposed to no such path."""
    return bool(error.codes & _MODEL_CODES or _NO_MODEL.search(error.words[:MAX_WORDS]))
