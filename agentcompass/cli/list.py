"""`agentcompass list KIND`."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from agentcompass.cli.common import FormatFlag, Given
from agentcompass.cli.output import Emitter, table

Kinds: TypeAlias = Literal["benchmarks", "harnesses", "environments", "recipes", "analyzers"]

_SINGULAR: Final = {"harnesses": "harness"}


def command(
    kind: Kinds,
    /,
    *,
    format: FormatFlag = "text",  # noqa: A002  # the flag's name
    context: Given,
) -> int:
    """List what is installed, by id; nothing of it is imported.

    Parameters
    ----------
    kind
        What to list.
    """
    from agentcompass.components import registry  # noqa: PLC0415  # not needed for --help

    known = next(registry.known(one) for one in get_args(registry.Kind) if one == _singular(kind))
    emitter = Emitter()
    if format == "json":
        emitter.json(dict(known))
    elif known:
        emitter.text(context.clean(table(list(known.items()))))
    else:
        emitter.text(f"no {kind} are installed")
    return 0


def _singular(kind: Kinds) -> str:
    return _SINGULAR.get(kind, kind.removesuffix("s"))
