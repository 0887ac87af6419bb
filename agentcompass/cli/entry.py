"""The program's first steps: the answers that must be quick, before anything is imported.

`--help`, no arguments at all, and `--version` are answered from text; a test holds the text against what the whole
command line would say.
"""

import os
import sys

HELP_FILE = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120  # pathlib takes longer than the rest
"""Rendered at 80 columns by `python -m agentcompass.cli.help`."""


def main() -> None:
    """Run the command line and exit the process with its code."""
    arguments = sys.argv[1:]
    text = _quick_answer(arguments)
    if text is None:
        sys.exit(_whole(arguments))
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more; without this the interpreter would complain once again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _quick_answer(arguments: list[str]) -> str | None:
    if arguments in ([], ["--help"], ["-h"]):
        with open(HELP_FILE, encoding="utf-8") as file:  # noqa: PTH123  # as above
            return file.read()
    if arguments == ["--version"]:
        from agentcompass._version import __version__  # noqa: PLC0415  # only when asked for

        return f"agentcompass {__version__}\n"
    return None


def _whole(arguments: list[str]) -> int:
    import signal  # noqa: PLC0415  # not needed for the quick answers

    # Until the engine takes signals over there is nothing to clean up, and after it nothing is left to do: a plain
    # exit, which no second Ctrl-C in the middle of an import or of the interpreter's end can turn into a traceback.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _leave)
    from agentcompass.cli.app import run  # noqa: PLC0415  # everything that is heavy

    return run(arguments)


def _leave(number: int, _frame: object) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
