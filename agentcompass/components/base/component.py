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
    version: str = "1"
    """Raised whenever an answer or a score could change; part of the fingerprint. Given on the class, or added to by the
    constructor where something decides that no parameter shows, such as what stands in a file of the user's."""
    Params: ClassVar[type] = NoParams
    extra: ClassVar[str | None] = None
    """The extra of its package that it needs (`pip install 'PACKAGE[EXTRA]'`); None: nothing beyond the package itself.
    It is there before a method is called, but not yet when the class is imported or constructed."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Top-level modules that the extra brings, by which it is known to be there."""

    def __init__(self, params: P) -> None:
        self.params = params
