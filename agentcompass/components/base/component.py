"""What all components have in common."""

from __future__ import annotations

import abc
from typing import ClassVar, Generic, TypeVar

from agentcompass.data import frozen


@frozen(kw_only=True)
class NoParams:
    """Parameters of a component that has none."""


P = TypeVar("P")


class Component(abc.ABC, Generic[P]):
    """What all extension points share: an id, a line of description, and a class of parameters.

    `Params` is an attrs class (`@attrs.frozen(kw_only=True)`); its fields are the component's keys in files and in
    `--benchmark-params` etc., each documented by a string under it. A field with `metadata={"selection": True}`
    chooses tasks without changing any answer, and so does not count in the fingerprint.
    """

    id: ClassVar[str]
    description: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    """Raised whenever an answer or a score could change; part of the fingerprint."""
    Params: ClassVar[type] = NoParams

    def __init__(self, params: P) -> None:
        self.params = params
