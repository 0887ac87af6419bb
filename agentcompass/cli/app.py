"""The command line as a whole: which commands there are, and how each of them ends.

Commands are named by import path and loaded when they are called.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cyclopts import App

from agentcompass import descriptors
from agentcompass._version import __version__
from agentcompass.cli import errors
from agentcompass.cli.formatter import HelpFormatter
from agentcompass.cli.output import Emitter

_RUN_NOTES: Final = (
    "Options that take JSON also take @FILE, and - for standard input. The result goes to standard output, everything"
    " else to standard error. Write --reuse=RUN_ID, or put --reuse last: it would take a following argument for the id."
)

_EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {"help_epilogue": _RUN_NOTES},
    "status": {"usage": "agentcompass status [OPTIONS] [DIR]"},
    "summary": {"usage": "agentcompass summary [OPTIONS] RUN_DIR..."},
}
"""What cyclopts cannot know of a command."""

COMMANDS: Final = (
    ("run", "run:command", "Evaluate a model, in a harness, on a benchmark."),
    ("launch", "launch:command", "Run the evaluations of an orchestration file."),
    (
        "prefetch",
        "prefetch:command",
        "Download what a run needs ahead of time: data, images, a harness's program.",
    ),
    ("status", "status:command", "Show what a run or a launch in another process is doing now."),
    ("summary", "summary:command", "Show the scores of a run, or compare several."),
    ("regrade", "regrade:command", "Evaluate again what the agents of a run left."),
    ("export", "export:command", "Write a run in the form of another tool."),
    ("list", "list:command", "List benchmarks, harnesses, environments, recipes or analyzers."),
    ("config", "config:app", "Show settings, where they come from and what they mean."),
    ("env", "env:app", "List or remove the sandboxes that earlier runs left."),
    ("completion", "completion:command", "Print or install the completion of a shell."),
)
"""Name, object below `agentcompass.cli`, and line in the help of each command."""

_WITH_OPTIONS: Final = ("run", "launch", "regrade", "prefetch")
"""Those that are a `parameters.OptionCommand`."""


def build(line: Sequence[str] = ()) -> App:
    """Return the command line.

    Args:
        line: The arguments that are to be read, if they are known: saves time where a command has many options.
            Otherwise nothing of a command is imported.
    """
    app = App(
        name="agentcompass",
        help="Evaluate AI agents: any model, in any harness, on any benchmark, in any sandbox.\n\n"
        "`agentcompass COMMAND --help` describes a command.",
        version=f"agentcompass {__version__}",
        help_format="plaintext",
        help_formatter=HelpFormatter(),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for position, (name, place, text) in enumerate(COMMANDS):
        extras = _EXTRAS.get(name, {})
        command: Any = f"agentcompass.cli.{place}"
        if name in _WITH_OPTIONS and line and line[0] == name:
            command = importlib.import_module(f"agentcompass.cli.{name}").command.on(line[1:])
        app.command(command, name=name, help=text, sort_key=position, **extras)
    return app


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line.

    Args:
        arguments: Without the program's name.

    Returns:
        The exit code, one of those that docs/errors.md lists.
    """
    context = errors.Context.of(arguments)
    descriptors.raise_limit()
    try:
        command, bound, unparsed = build(arguments).parse_args(list(arguments))
        if "console" in bound.arguments:
            return _print_page(command, bound)
        known = {"context": context} if "context" in unparsed else {}
        result = command(*bound.args, **bound.kwargs, **known)
    except Exception as error:  # noqa: BLE001  # the last line of defence: a person gets a sentence, not a traceback
        return errors.report(error, context, sys.stderr)
    return result if isinstance(result, int) else 0


def _print_page(command: Callable[..., Any], bound: inspect.BoundArguments) -> int:
    """Print help or version, which cyclopts would write to standard output itself, whatever became of that."""
    with bound.arguments["console"].capture() as captured:
        command(*bound.args, **bound.kwargs)
    Emitter().text(captured.get())
    return 0
