"""Serves a local model on loopback until its parent has ended.

A program of its own: native code that crashes, or holds the interpreter for seconds, must not do so in the engine's
process.

Run as `python -I local_child.py`. Standard input is one line of JSON and then a lifeline, which is never written to:

- `sys_path`: where packages are found;
- `parent`: the process to outlive by nothing;
- `model`, `weights_package`, `sha256`, `context_tokens`: as in `catalog.LocalModel`;
- `weights`: the file to serve, made if it is not there or not what it should be.

Standard output is one line of JSON, as soon as a request would be answered: `{"url": "http://127.0.0.1:PORT"}`.
Everything else, also what the native code prints, goes to standard error.
"""

from __future__ import annotations

import fcntl
import http.client
import importlib
import json
import os
import select
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HOST = "127.0.0.1"
READY_POLL_SECONDS = 0.05
WARNINGS = 2
"""The server's verbosity; one more and it logs every request."""


def main() -> None:
    """Assemble, load, announce, and wait for the parent's end."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_parent, args=(job["parent"],), daemon=True).start()
    announcement = os.dup(1)
    os.dup2(2, 1)
    sys.path.extend(entry for entry in job["sys_path"] if entry not in sys.path)
    assemble(Path(job["weights"]), job["weights_package"], job["sha256"])
    server = serve(job)
    url = server.listening_address
    wait_until_healthy(url)
    os.write(announcement, json.dumps({"url": url}).encode() + b"\n")
    threading.Event().wait()  # `server` must not be collected


def end_with_parent(parent: int) -> None:
    """End this process at once when the lifeline hangs up or the parent is gone.

    Two signs, since a process that the parent forked may hold the lifeline open. Asking the kernel for a signal at
    the parent's death (PR_SET_PDEATHSIG) would not do: it comes when the thread ends that started this process.
    """
    watched = select.poll()
    watched.register(0, select.POLLIN)
    try:
        watched.register(os.pidfd_open(parent), select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError as error:  # a kernel without pidfds
        say(f"only the lifeline is watched: {error}")
    if os.getppid() == parent:
        watched.poll()
    os._exit(0)


def assemble(weights: Path, package: str, sha256: str) -> None:
    """Make sure that the file of weights is there and whole; one process at a time, and never half a file."""
    module = importlib.import_module(package)
    if sha256 != module.EXPECTED_SHA256:
        sys.exit(f"{package} has other weights than expected: sha256 {module.EXPECTED_SHA256}")
    weights.parent.mkdir(parents=True, exist_ok=True)
    with weights.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if weights.exists():
                module.assemble(weights)
                return
        except FileExistsError as error:
            say(f"the weights are made again: {error}")
        partial = weights.with_suffix(".partial")
        try:
            module.assemble(partial, overwrite=True)
            partial.replace(weights)
        finally:
            partial.unlink(missing_ok=True)


def serve(job: dict[str, Any]) -> Any:
    """Start the server on a port that the system chooses, and return it.

    One call at a time, and nothing kept from one to the next: so that equal calls get equal answers, whatever else
    is asked.
    """
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = job["weights"]
    params.model_alias = {job["model"]}
    params.n_ctx = job["context_tokens"]
    params.n_parallel = 1
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.hostnames = [HOST]
    params.port = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = n_threads()
    params.cors_origins = ""
    params.endpoint_slots = False
    params.offline = True
    params.use_jinja = True
    params.ui = False
    params.warmup = False
    params.verbosity = WARNINGS
    return xllamacpp.Server(params)


def n_threads() -> int:
    """Return how many threads compute: half of the processors, four at most.

    They wait for each other all the time, spinning: where others need the processors too, one that is held up holds up
    all, and as many threads as processors are several times slower than half as many.
    """
    return max(1, min(4, len(os.sched_getaffinity(0)) // 2))


def wait_until_healthy(url: str) -> None:
    """Wait until the server says that it is ready; how long is the parent's business."""
    while True:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(READY_POLL_SECONDS)


def say(text: str) -> None:
    """Tell whoever reads standard error, which is shown when the start fails."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main()
