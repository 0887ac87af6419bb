"""Parts of an ATIF document: messages with images, tool calls, metrics. Pure, and tolerant of whatever steps say."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from agentcompass.records import JSON, Usage

_DATA_URL: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,(.*)", re.DOTALL)
_SUFFIXES: Final = {"png": "image/png", "gif": "image/gif", "webp": "image/webp"}


@final
class Images:
    """The images of a document, which stand in files beside it.

    Args:
        prefix: What their paths begin with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.files: dict[str, bytes] = {}

    def message(self, content: JSON) -> str | list[dict[str, Any]]:
        """Return the content of a message, in the OpenAI chat form, as text or as parts with text and images."""
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            return json.dumps(content, ensure_ascii=False)
        return [self._part(part) for part in content]

    def _part(self, part: JSON) -> dict[str, Any]:
        if isinstance(part, Mapping):
            if part.get("type") == "text":
                return {"type": "text", "text": str(part.get("text", ""))}
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, Mapping) else None
            if isinstance(url, str):
                source = self._source(url)
                if source is not None:
                    return {"type": "image", "source": source}
        return {"type": "text", "text": json.dumps(part, ensure_ascii=False)}

    def _source(self, url: str) -> dict[str, str] | None:
        """Where an image is; None if it is of no kind that the format knows."""
        found = _DATA_URL.fullmatch(url)
        if found is None:
            suffix = url.partition("?")[0].rpartition(".")[2].lower()
            is_data = url.startswith("data:")
            kind = _SUFFIXES.get(suffix, "image/jpeg")
            return None if is_data else {"media_type": kind, "path": url}
        try:
            content = base64.b64decode(found[2], validate=True)
        except (binascii.Error, ValueError):
            return None
        suffix = found[1].partition("/")[2]
        path = f"{self._prefix}-{len(self.files) + 1}.{suffix}"
        self.files[path] = content
        return {"media_type": found[1], "path": path}


def calls_of(listed: JSON) -> list[dict[str, Any]]:
    """Return the tool calls of a reply; ids that are missing or come twice get a number."""
    calls: list[dict[str, Any]] = []
    known: set[str] = set()
    for number, call in enumerate(listed if isinstance(listed, list) else (), 1):
        if not isinstance(call, Mapping):
            continue
        name = str(call.get("id") or f"call-{number}")
        while name in known:
            name = f"{name}#{number}"
        known.add(name)
        arguments, extra = _arguments(call.get("arguments"))
        calls.append(
            present(
                tool_call_id=name,
                function_name=str(call.get("name") or "unknown"),
                arguments=arguments,
                extra=extra,
            )
        )
    return calls


def _arguments(text: JSON) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The arguments as an object; what is none is kept as it was."""
    if isinstance(text, Mapping):
        return dict(text), None
    try:
        value = json.loads(text or "{}", parse_constant=_refused, parse_float=_finite)
    except (TypeError, ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value, None
    return {}, {"unparsed_arguments": text if isinstance(text, str) else json.dumps(text)}


def _refused(constant: str) -> JSON:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def metrics_of(usage: JSON) -> dict[str, Any] | None:
    """Return the metrics of a reply; None where the endpoint told nothing."""
    if not isinstance(usage, Mapping) or usage.get("unmetered_calls"):
        return None
    extra = {
        name: usage[name]
        for name in ("reasoning_tokens", "cache_write_tokens")
        if _count(usage.get(name))
    }
    made = present(
        prompt_tokens=_count(usage.get("input_tokens")),
        completion_tokens=_count(usage.get("output_tokens")),
        cached_tokens=_count(usage.get("cached_tokens")),
        cost_usd=_amount(usage.get("cost_usd")),
        extra=extra or None,
    )
    return made or None


def final_metrics(steps: Iterable[Mapping[str, Any]], usage: Usage | None) -> dict[str, Any]:
    """Return the sums over the steps of a document, as far as each of its calls told its part.

    Args:
        steps: Of the document.
        usage: Of the whole execution, hand-overs and calls without a reply included; None if that is another's.
    """
    listed = list(steps)
    metered = [step["metrics"] for step in listed if "metrics" in step]
    replies = sum(step["source"] == "agent" and "llm_call_count" in step for step in listed)
    is_known = len(metered) == replies
    costs = [metrics.get("cost_usd") for metrics in metered]
    is_priced = is_known and None not in costs

    def total(name: str) -> int | None:
        return sum(metrics.get(name, 0) for metrics in metered) if is_known else None

    whole = None
    if usage is not None:
        whole = {
            "calls": usage.calls,
            "unmetered_calls": usage.unmetered_calls,
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cost_usd": usage.cost_usd,
        }
    return present(
        total_prompt_tokens=total("prompt_tokens"),
        total_completion_tokens=total("completion_tokens"),
        total_cached_tokens=total("cached_tokens"),
        total_cost_usd=math.fsum(costs) if is_priced else None,
        total_steps=len(listed),
        extra=None if whole is None else {"execution_usage": whole},
    )


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value: the format leaves the others out."""
    return {name: value for name, value in fields.items() if value is not None}


def text_of(value: JSON) -> str | None:
    """Return a text that says something; None for everything else."""
    return value if isinstance(value, str) and value else None


def _count(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _amount(value: JSON) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and value >= 0 else None
