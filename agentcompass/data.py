"""`frozen`: what makes a class from its fields, in a package that has two hundred of them and must start quickly.

attrs writes out how the objects of a class are shown, compared and hashed, and compiles that, class by class: more
than half of what defining a class takes, for methods that are hardly ever called. Here all classes share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

__all__ = ["frozen"]

if TYPE_CHECKING:
    from attrs import frozen  # noqa: TID251  # type checkers know this one
else:

    def frozen(
        cls: type | None = None, /, *, eq: bool = True, **options: Any
    ) -> type | Callable[[type], type]:
        """Make an attrs class whose objects do not change: `attrs.frozen`, and used like it.

        Args:
            cls: The class, where no option is given.
            eq: Objects are compared, and hashed, by their fields.
            options: Of `attrs.frozen`, except `repr`. A field's own `eq` and `repr` are True or False.
        """

        def make(cls: type) -> type:
            made = attrs.frozen(cls, eq=False, repr=False, **options)  # noqa: TID251  # the one place
            if "__repr__" not in vars(made):
                made.__repr__ = _repr
            if eq and "__eq__" not in vars(made):
                made.__eq__, made.__hash__ = _eq, _hash
            return made

        return make if cls is None else make(cls)


def _repr(self: Any) -> str:
    fields = self.__attrs_attrs__
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields if f.repr)
    return f"{type(self).__qualname__.rpartition('>.')[2]}({shown})"


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, field.name) for field in self.__attrs_attrs__ if field.eq])
