"""What users may set of every installed agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from agentcompass.data import frozen
from agentcompass.spec.ranges import PositiveInt


@frozen(kw_only=True)
class InstalledParams:
    """Parameters of all harnesses of installed agents; those of the generation are the model's."""

    version: str = ""
    """Version of the program that is brought."""
    install: Literal["npm", "image"] = "npm"
    """Where the program comes from: `npm`, which has it brought, or `image`, the sandbox's own, whatever its version is."""
    program: str | None = None
    """With `image`: its name or path there; null: its usual name."""
    max_turns: PositiveInt | None = None
    """Replies of the model after which it is stopped; null means no limit."""
    web: bool = False
    """Whether it may use its web tools. Some work by the endpoint, also in a sandbox without a network."""
    varying: tuple[str, ...] = ()
    """Regular expressions of texts in its requests that differ from run to run, beside the date and the like: a replay overlooks them."""
    arguments: tuple[str, ...] = ()
    """Further arguments of the program."""
    env_variables: Mapping[str, str] = attrs.field(factory=dict)
    """Further environment variables of the program."""
