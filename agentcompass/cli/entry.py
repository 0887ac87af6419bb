"""The program's first steps: the answers that must be quick, before anything is imported.

`--help`, no arguments at all, and `--version` are answered from text; a test holds the text against what the whole
command line would say.
"""

import os
import sys

HELP_FILE = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120  # pathlib takes longer than the rest
"""Rendered at 80 columns by `python -m agentcompass.cli.help`."""
_EIO = 5
"""`errno.EIO`, which a terminal gives that was closed; the module is not worth its import."""


def main() -> None:
    """Run the command line and exit the process with its code."""
    arguments = sys.argv[1:]
    text = _quick_answer(arguments)
    code = _whole(arguments) if text is None else 0
    if failed := _write_out(text or "") or code:
        sys.exit(failed)


def _write_out(text: str) -> int:
    """Write a text and what is buffered. A stream that fails is pointed at nothing, or the interpreter would fail at its end.

    Returns:
        1 if standard output could not take what was written to it, else 0: a reader who has gone had enough.
    """
    failed = 0
    for stream, words in ((sys.stdout, text), (sys.stderr, "")):
        try:
            if stream is not None:
                stream.write(words)
                stream.flush()
        except ValueError:  # closed
            continue
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            gone = isinstance(error, BrokenPipeError) or error.errno == _EIO
            if stream is sys.stdout and not gone:
                failed = 1
                if sys.stderr is not None:
                    sys.stderr.write(
                        f"error: standard output cannot be written: {error.strerror}\n"
                    )
    return failed


def _quick_answer(arguments: list[str]) -> str | None:
    if arguments in ([], ["--help"], ["-h"]):
        with open(HELP_FILE, encoding="utf-8") as file:  # noqa: PTH123  # as above
            return file.read()
    if arguments == ["--version"]:
        from agentcompass._version import __version__  # noqa: PLC0415  # only when asked for

        return f"agentcompass {__version__}\n"
    return None


def _whole(arguments: list[str]) -> int:
    import gc  # noqa: PLC0415  # not needed for the quick answers
    import signal  # noqa: PLC0415  # as above

    # Imports make tens of thousands of objects and hardly any garbage: looking for it would cost a tenth of the start.
    # The engine, once it runs, has a pace of its own.
    gc.set_threshold(100_000, 20, 20)

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
