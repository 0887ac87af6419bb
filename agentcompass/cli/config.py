"""`agentcompass config show|docs|explain KEY`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import attrs
from cyclopts import App, Parameter

from agentcompass.cli.common import FormatFlag, Given
from agentcompass.cli.output import Emitter, table
from agentcompass.progress.text import printable

app: Final = App(name="config", help="Show settings, where they come from and what they mean.")

Files: TypeAlias = Annotated[
    list[Path] | None,
    Parameter(
        name="--config", negative="", help="Configuration file, read after the others; repeatable."
    ),
]


@app.command
def show(*, config: Files = None, format: FormatFlag = "text", context: Given) -> int:  # noqa: A002  # the flag's name
    """Show every setting of the configuration files and the built-in defaults, with its origin."""
    from agentcompass.plan.explain import config_values  # noqa: PLC0415  # not needed for --help

    values = config_values(**_surroundings(config))
    if format == "json":
        Emitter().json([attrs.asdict(value) for value in values])
    else:
        rows = [(value.key, _shown(value.value), value.origin) for value in values]
        Emitter().text(context.clean(table([("key", "value", "origin"), *rows])))
    return 0


@app.command
def docs(*, format: FormatFlag = "text", context: Given) -> int:  # noqa: A002  # the flag's name
    """Describe every key that a configuration file may have, those of installed components included."""
    from agentcompass.plan.explain import config_docs  # noqa: PLC0415  # not needed for --help

    found = config_docs()
    if format == "json":
        Emitter().json([attrs.asdict(doc) for doc in found])
        return 0
    blocks = []
    for doc in found:
        default = "required" if doc.is_required else f"default {_shown(doc.default)}"
        flag = f", {doc.flag}" if doc.flag else ""
        blocks.append(f"{doc.key}  ({doc.type}; {default}{flag})\n    {doc.doc}".rstrip())
    Emitter().text(context.clean("\n".join(blocks)))
    return 0


@app.command
def explain(
    key: str,
    /,
    *,
    config: Files = None,
    format: FormatFlag = "text",  # noqa: A002  # the flag's name
    context: Given,
) -> int:
    """Explain one setting: its value, where it comes from, what it overrode and what it means.

    Parameters
    ----------
    key
        Dotted, as in a configuration file: execution.k, benchmarks.humaneval.limit.
    """
    from agentcompass.plan.explain import explain as explained  # noqa: PLC0415  # not needed for --help

    found = explained(key, **_surroundings(config))
    if format == "json":
        Emitter().json(attrs.asdict(found))
        return 0
    rows = [("value", _shown(found.value)), ("origin", found.origin)]
    rows += [("overrode", f"{_shown(old.value)}  {old.origin}") for old in found.overrode]
    if found.doc is not None:
        rows += [("type", found.doc.type), ("meaning", found.doc.doc)]
        rows += [("option", found.doc.flag)] if found.doc.flag else []
    Emitter().text(context.clean(f"{printable(found.key)}\n{table(rows, indent='  ')}"))
    return 0


def _surroundings(config: list[Path] | None) -> dict[str, Any]:
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415  # not needed for --help

    return {"cwd": working_directory(), "environ": os.environ, "config_path": config}


def _shown(value: Any) -> str:
    from agentcompass.cli.render import plain  # noqa: PLC0415  # not needed for --help

    return plain(value)
