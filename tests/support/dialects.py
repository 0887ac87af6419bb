"""Moved: see agentcompass.testing.dialects."""

from agentcompass.testing.dialects import *  # noqa: F403
