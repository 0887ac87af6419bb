"""`--dry-run`: what would run, and whether everything for it is there. Writes nothing."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import trio
from ruamel.yaml import YAML

from agentcompass.cli import errors
from agentcompass.cli.comparison import named_table
from agentcompass.cli.errors import Context
from agentcompass.cli.output import COLUMNS, Emitter, Format, table
from agentcompass.engine.planning import check_room
from agentcompass.engine.survey import Survey, survey
from agentcompass.errors import AgentCompassError
from agentcompass.plan.advice import Advice, Credential, advise
from agentcompass.progress.text import printable
from agentcompass.records import JSON
from agentcompass.spec.dump import resolved_as_dict
from agentcompass.spec.resolved import Orchestration

_WIDTH: Final = 100
_HEAD: Final = ("tasks", "attempts", "sandboxed", "images", "reused")
_MAX_IMAGES: Final = 20
"""Listed for people; programs get all."""


def show(orchestration: Orchestration, context: Context, format: Format) -> int:  # noqa: A002  # the flag's name
    """Print the orchestration as a file that would give it again, and what it needs as comments in that file.

    Warnings and what is missing are told on standard error; in JSON all stands in the one document.

    Returns:
        The exit code: 0, or that of the first thing that is missing.
    """
    advice = advise(orchestration)
    surveys = trio.run(survey, orchestration)
    general = _room(orchestration)
    emitter = Emitter()
    if format == "json":
        emitter.json(context.scrubbed(_document(orchestration, advice, surveys, general)))
    else:
        found = context.clean("\n".join(_facts(orchestration, advice, surveys)))
        comments = "".join(f"# {line}".rstrip() + "\n" for line in found.splitlines())
        emitter.text(as_yaml(resolved_as_dict(orchestration)) + comments)
    _tell(orchestration, advice, surveys, context)
    problems = [("", error) for error in general]
    problems += [
        ("" if orchestration.is_single else one.request, error)
        for one in surveys
        for error in one.problems
    ]
    codes = [errors.report(error, context, sys.stderr, about=name) for name, error in problems]
    return codes[0] if codes else 0


def as_yaml(value: JSON) -> str:
    """Return a JSON value as YAML 1.2, in blocks and in its own order."""
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()


def _room(orchestration: Orchestration) -> list[AgentCompassError]:
    try:
        check_room(orchestration.runtime.results_dir)
    except AgentCompassError as error:
        return [error]
    return []


def _tell(
    orchestration: Orchestration, advice: Advice, surveys: Sequence[Survey], context: Context
) -> None:
    """Notes and warnings; without the names of requests where there is one only."""
    for note in orchestration.notes:
        errors.tell(f"note: {note}", context, sys.stderr)
    for one in surveys:
        for note in one.notes:
            errors.tell(f"note: {_about((one.request,), orchestration)}{note}", context, sys.stderr)
    for caution in advice.cautions:
        about = _about(caution.requests, orchestration)
        errors.tell(f"warning: {about}{caution.sentence}", context, sys.stderr)


def _about(names: Sequence[str], orchestration: Orchestration) -> str:
    if orchestration.is_single or not names:
        return ""
    return f"{', '.join(map(printable, names))}: "


# --- for people


def _facts(
    orchestration: Orchestration, advice: Advice, surveys: Sequence[Survey]
) -> Iterator[str]:
    rows = [(one.request, _figures(one)) for one in surveys]
    yield named_table("request", _HEAD, rows, COLUMNS - 2)
    images = _images_of(surveys)
    if images:
        yield "images:"
        yield table(images[:_MAX_IMAGES], indent="  ")
    if len(images) > _MAX_IMAGES:
        yield f"  and {len(images) - _MAX_IMAGES} more"
    if advice.credentials:
        yield "credentials:"
        credentials = [_credential(one, orchestration) for one in advice.credentials]
        yield table(credentials, indent="  ")


def _figures(one: Survey) -> tuple[str, ...]:
    return (*map(_count, (one.tasks, one.attempts, one.sandboxed)), _images(one), _reused(one))


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _images_of(surveys: Sequence[Survey]) -> list[tuple[str, str]]:
    """Every image that is needed and what is known of it, those that are missing first."""
    states: dict[str, str] = {}
    for one in surveys:
        for image in one.images or ():
            is_unknown = one.missing_images is None
            is_missing = not is_unknown and image in (one.missing_images or ())
            states[image] = "?" if is_unknown else "missing" if is_missing else "there"
    return sorted(states.items(), key=lambda row: (row[1] == "there", row))


def _images(one: Survey) -> str:
    if one.images is None:
        return "?"
    if not one.images or one.missing_images is None:
        return f"{len(one.images)}, ? missing" if one.images else "-"
    return f"{len(one.images)}, {len(one.missing_images)} missing"


def _reused(one: Survey) -> str:
    if not one.is_reusing:
        return "-"
    if one.reused is None:
        return "?"
    return f"{one.reused:,} of {one.reused_from}" if one.reused_from else "none found"


def _credential(one: Credential, orchestration: Orchestration) -> tuple[str, ...]:
    how = one.reference or ("in clear" if one.is_present else "none")
    there = "present" if one.is_present else "not given"
    return (one.path, how, there, _about(one.requests, orchestration).removesuffix(": "))


# --- for programs


def _document(
    orchestration: Orchestration,
    advice: Advice,
    surveys: Sequence[Survey],
    general: Sequence[AgentCompassError],
) -> JSON:
    return {
        "orchestration": resolved_as_dict(orchestration),
        "notes": list(orchestration.notes),
        "warnings": [attrs.asdict(caution) for caution in advice.cautions],
        "credentials": [attrs.asdict(credential) for credential in advice.credentials],
        "problems": [_problem(error) for error in general],
        "requests": {
            one.request: {
                **attrs.asdict(one, filter=lambda field, _value: field.name != "request"),
                "problems": [_problem(error) for error in one.problems],
            }
            for one in surveys
        },
    }


def _problem(error: AgentCompassError) -> JSON:
    return {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
