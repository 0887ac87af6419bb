"""Moved: see agentcompass.testing."""

from agentcompass.testing import *  # noqa: F403
from agentcompass.testing.behaviours import BEHAVIOURS, BIG_SIZE  # noqa: F401
from agentcompass.testing.reactions import MESSAGE_USAGE, RESPONSE_USAGE, USAGE, Behaviour, Calls  # noqa: F401
