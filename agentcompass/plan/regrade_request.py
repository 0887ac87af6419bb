"""From the run that is to be evaluated again to an `Orchestration` of one request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from agentcompass.errors import ConfigurationError, StoreError
from agentcompass.options import RegradeOptions, RunOptions
from agentcompass.plan.resolve import resolve_run
from agentcompass.spec.resolved import Orchestration
from agentcompass.store.reader import read_run
from agentcompass.store.request import run_options


def resolve_regrade(
    run_dir: Path,
    options: RegradeOptions,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    now: datetime,
    random_suffix: str,
    as_flags: bool = False,
) -> Orchestration:
    """Resolve what evaluates again what an earlier run left: its own request, but for what is given now.

    Args:
        run_dir: Of the earlier run, relative to `cwd`.
        options: The arguments; None means as it was.
        cwd: As for `resolve_run`, like the rest.
        environ: Values of `${NAME}`, and the home directories.
        now: Goes into ids, as UTC.
        random_suffix: Goes into ids.
        as_flags: Whether messages speak of `--env` or of `argument environment`.

    Raises:
        ConfigurationError: There is no such run, or something is wrong; the error names all of it.
    """
    directory = cwd / run_dir
    try:
        info = read_run(directory).info
    except StoreError as error:
        raise ConfigurationError(error.message, hint=error.hint) from error
    before = run_options(info)
    up = 2 if info.request.get("run_name") is None else 3
    before["results_dir"] = directory.absolute().parents[up - 1]
    given = {
        name: value
        for name, value in attrs.asdict(options, recurse=False).items()
        if value is not None
    }
    orchestration = resolve_run(
        RunOptions(**_merged(before, given)),
        cwd=cwd,
        environ=environ,
        now=now,
        random_suffix=random_suffix,
        as_flags=as_flags,
    )
    (request,) = orchestration.requests
    again = attrs.evolve(request, name=info.name, regrade_of=directory.absolute())
    return attrs.evolve(orchestration, requests=(again,))


def _merged(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of components go beside those of before, unless it is another component now."""
    kept = dict(before)
    if given.get("environment", before["environment"]) != before["environment"]:
        kept.pop("environment_params", None)
    merged = {**kept, **given}
    for name in ("benchmark_params", "environment_params"):
        if isinstance(given.get(name), Mapping):
            merged[name] = {**kept.get(name, {}), **given[name]}
    return merged
