"""A fake endpoint as a process: `python -m agentcompass.testing` prints its URL and serves until it is terminated or its parent has ended."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentcompass.testing.behaviours import BEHAVIOURS
from agentcompass.testing.reactions import Seen, chat
from agentcompass.testing.server import FakeEndpoint


def main(argv: Sequence[str] | None = None) -> None:
    """Serve a named behaviour until terminated, or until the parent process has ended."""
    parser = argparse.ArgumentParser(prog="python -m agentcompass.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", choices=sorted(BEHAVIOURS), default="echo")
    parser.add_argument("--answer", help="a fixed text instead of a behaviour")
    parser.add_argument(
        "--log", type=Path, help="append each request to this file, a JSON line each"
    )
    options = parser.parse_args(argv)
    behaviour = BEHAVIOURS[options.behaviour] if options.answer is None else chat(options.answer)
    # asked before the URL is printed: whoever reads it may end at once
    parent, stopped = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    with FakeEndpoint(behaviour, port=options.port, on_request=_logger(options.log)) as endpoint:
        print(endpoint.base_url, flush=True)
        while os.getppid() == parent and not stopped.wait(0.5):
            pass


def _logger(file: Path | None) -> Callable[[Seen], None]:
    if file is None:
        return lambda _seen: None
    lock = threading.Lock()

    def append(seen: Seen) -> None:
        line = json.dumps(
            {"at": datetime.now(UTC).timestamp(), "target": seen.target, "body": seen.body.decode()}
        )
        with lock, file.open("a") as out:
            out.write(line + "\n")

    return append


if __name__ == "__main__":
    main()
