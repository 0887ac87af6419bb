"""The names of the model protocols, in one place."""

from __future__ import annotations

from typing import Final

AUTO: Final = "auto"
"""Leaves the choice to harness and URL."""

CHAT_PROTOCOLS: Final = ("openai-chat", "openai-responses", "anthropic")
"""Those by which a conversation can be had."""
PROTOCOLS: Final = (*CHAT_PROTOCOLS, "openai-completions")
"""What `model.api_protocol` accepts beside `auto`."""
