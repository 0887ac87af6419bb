"""What a program is told that gets no answer: errors in the form of its protocol, with the status that its client knows. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from agentcompass.components.models.anthropic import Anthropic
from agentcompass.components.models.failures import EndpointError
from agentcompass.errors import ModelError
from agentcompass.net.http_server import RefusedError
from agentcompass.records import JSON

JSON_TYPE: Final[Mapping[str, str]] = {"Content-Type": "application/json"}
_NO_RETRY: Final[Mapping[str, str]] = {"x-should-retry": "false"}
"""To the official clients: the gateway has tried often enough."""

_WORDS: Final[Mapping[int, str]] = {
    400: "the request cannot be read",
    401: "this key is not valid, or not any more",
    404: "there is no such path here",
    405: "there is no such method here",
    413: "the request is too large",
    415: "the request's body is encoded in a way that is not understood here",
    431: "the request's head is too large",
    503: "too much is being asked at once",
}
_STATUSES: Final[Mapping[str, int]] = {
    "bad-request": 400,
    "reasoning-refused": 400,
    "context-exceeded": 400,
    "model-revoked": 401,
    "unauthorized": 401,
    "budget-spent": 403,
    "model-not-found": 404,
    "endpoint-not-found": 404,
    "rate-limited": 429,
    "quota-exceeded": 429,
    "server-error": 500,
    "overloaded": 529,
    "timed-out": 504,
    "stalled": 504,
}
"""Of an error for which the endpoint gave no status; else 502."""
_BAD_GATEWAY: Final = 502
_CODES: Final[Mapping[str, str]] = {
    "context-exceeded": "context_length_exceeded",
    "model-not-found": "model_not_found",
    "model-revoked": "invalid_api_key",
    "quota-exceeded": "insufficient_quota",
    "rate-limited": "rate_limit_exceeded",
}
"""By our code: that of the OpenAI protocols, by which clients decide what to do."""
_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Of an error, by status; else by whose fault it is. Source: Anthropic API reference, "Errors"."""


def explanation(protocol: str, status: int, words: str = "", code: str | None = None) -> bytes:
    """Return the body of an error.

    Args:
        protocol: In whose form.
        status: The HTTP status.
        words: For people; empty: what the status means.
        code: Of the OpenAI protocols.
    """
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    message = words or _WORDS.get(status, "the request was refused")
    if protocol == Anthropic.name:
        body: JSON = {"type": "error", "error": {"type": kind, "message": message}}
    else:
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return json.dumps(body).encode()


def refusal_for(error: ModelError, protocol: str) -> RefusedError:
    """Return how a program is told of a call that failed before anything of its answer was sent on.

    The endpoint's own words go on where they have the protocol's form, without the secrets that some repeat: clients look
    for some of them, as for those about a conversation that is too long.
    """
    said = error.said if isinstance(error, EndpointError) else None
    status = said.status if said is not None else _STATUSES.get(error.code, _BAD_GATEWAY)
    if said is not None and _has_form(said.body, protocol):
        body = said.body.encode()
    else:
        body = explanation(protocol, status, error.message, _CODES.get(error.code))
    return RefusedError(status, body, _NO_RETRY)


def _has_form(body: str, protocol: str) -> bool:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return False
    error = payload.get("error") if isinstance(payload, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return False
    return protocol != Anthropic.name or payload.get("type") == "error"
