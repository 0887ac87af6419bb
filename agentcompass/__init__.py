"""Evaluate AI agents: how good is this model, in this harness, on this benchmark, in this environment?

The names below are the public API. Each is imported on first use, so that `import agentcompass` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentcompass.errors import AgentCompassError as AgentCompassError
    from agentcompass.errors import ConfigurationError as ConfigurationError
    from agentcompass.errors import EvaluationFailedError as EvaluationFailedError
    from agentcompass.errors import EvaluationTimeoutError as EvaluationTimeoutError
    from agentcompass.errors import PreflightError as PreflightError

_ORIGINS: dict[str, str] = {
    "AgentCompassError": "errors",
    "ConfigurationError": "errors",
    "EvaluationFailedError": "errors",
    "EvaluationTimeoutError": "errors",
    "PreflightError": "errors",
}

__all__ = sorted(_ORIGINS)  # noqa: PLE0605  # the table is the list; a test compares both


def __getattr__(name: str) -> Any:
    try:
        module = _ORIGINS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    import importlib  # noqa: PLC0415  # only when a name is first used

    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
