"""The names of the model protocols, in one place."""

from __future__ import annotations

from typing import Final

AUTO: Final = "auto"
"""Leaves the choice to harness and URL."""

PROTOCOLS: Final = ("openai-chat", "openai-responses", "anthropic", "openai-completions")
"""What `model.api_protocol` accepts beside `auto`."""
