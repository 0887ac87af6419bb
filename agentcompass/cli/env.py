"""`agentcompass env list|close`: the sandboxes that earlier runs left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import attrs
from cyclopts import App, Parameter

from agentcompass.cli import errors
from agentcompass.cli.common import FormatFlag, Given, existing_directory
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter, table
from agentcompass.data import frozen

if TYPE_CHECKING:
    from agentcompass.records import Lease
    from agentcompass.store.leases import LeaseBook

app: Final = App(name="env", help="List or remove the sandboxes that earlier runs left.")

_AT_ONCE: Final = 16
"""Sandboxes that are removed at a time."""
_REMOVE_SECONDS: Final = 60
"""For each of them."""

Directory: TypeAlias = Annotated[
    Path | None,
    Parameter(
        name="DIR", help="Results root or run directory. Default: the results root of the settings."
    ),
]


@frozen
class Found:
    """A lease, and whether somebody looks after its sandbox."""

    book: LeaseBook
    lease: Lease
    is_in_use: bool

    @property
    def state(self) -> str:
        """In one word: `in use`, `kept` or `left`."""
        if self.is_in_use:
            return "in use"
        return "kept" if self.lease.keep else "left"


@app.command(name="list")
def list_(dir_: Directory = None, /, *, format: FormatFlag = "text", context: Given) -> int:  # noqa: A002  # the flag's name
    """List sandboxes that may exist: in use by a running process, kept on purpose, or left by a dead process."""
    found = _found(dir_, context)
    if format == "json":
        Emitter().json([{"state": one.state, **attrs.asdict(one.lease)} for one in found])
    elif not found:
        Emitter().text("no sandboxes")
    else:
        rows = [("sandbox", "environment", "state", "since", "run", "task")]
        rows += [
            (
                one.lease.name,
                one.lease.environment,
                one.state,
                one.lease.created_at,
                one.lease.run_id,
                one.lease.task_id,
            )
            for one in found
        ]
        Emitter().text(context.clean(table(rows)))
    return 0


@app.command
def close(
    dir_: Directory = None,
    /,
    *,
    all_: Annotated[
        bool,
        Parameter(
            name="--all", negative="", help="Also those that a running process uses: it will fail."
        ),
    ] = False,
    context: Given,
) -> int:
    """Remove sandboxes that were kept, or left by a dead process."""
    import trio  # noqa: PLC0415  # not needed for --help

    found = _found(dir_, context)
    chosen = [one for one in found if all_ or not one.is_in_use]
    failures = trio.run(_close, chosen)
    for name, error in failures:
        errors.tell(f"error: {name} could not be removed: {error}", context, sys.stderr)
    spared = len(found) - len(chosen)
    note = f", {spared} in use left alone" if spared else ""
    Emitter().text(f"{len(chosen) - len(failures)} removed, {len(failures)} failed{note}")
    return 1 if failures else 0


def _found(directory: Path | None, context: Context) -> list[Found]:
    from agentcompass.store.identity import is_alive  # noqa: PLC0415  # not needed for --help
    from agentcompass.store.leases import LeaseBook, find_leases  # noqa: PLC0415  # as above

    def corrupt(path: Path, reason: str) -> None:
        errors.tell(f"warning: lease {path} cannot be read: {reason}", context, sys.stderr)

    return [
        Found(LeaseBook(path.parent), lease, is_alive(lease.owner))
        for path, lease in find_leases(existing_directory(directory), corrupt)
    ]


async def _close(chosen: list[Found]) -> list[tuple[str, str]]:
    """Remove sandboxes and their leases; return names and errors of those that stay."""
    import trio  # noqa: PLC0415  # not needed for --help

    from agentcompass.engine.reaper import remove_lease  # noqa: PLC0415  # as above

    failures: list[tuple[str, str]] = []
    limiter = trio.CapacityLimiter(_AT_ONCE)

    async def remove(one: Found) -> None:
        async with limiter:
            try:
                with trio.fail_after(_REMOVE_SECONDS):
                    await remove_lease(one.book, one.lease)
            except trio.TooSlowError:
                failures.append((one.lease.name, f"it took longer than {_REMOVE_SECONDS} seconds"))
            except Exception as error:  # noqa: BLE001  # a component's; the other sandboxes are removed all the same
                failures.append((one.lease.name, f"{error}" or type(error).__name__))

    async with trio.open_nursery() as nursery:
        for one in chosen:
            nursery.start_soon(remove, one)
    return failures
