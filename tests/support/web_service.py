"""A Starlette service that launches evaluations for whoever asks, and as long as they stay connected.

`python -m support.web_service` prints its port and serves under uvicorn, until it is told to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import json
import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from agentcompass import OrchestrationSpec, RunRequestSpec, async_launch

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
"""Whose launch it is."""

running: set[asyncio.Task] = set()
"""Those that await a launch now."""
told: list[dict] = []
"""Each call of a callback: what it was, for whom, and whether it came where it should."""


async def evaluate(asked: dict) -> dict:
    """Launch what is asked for, and return the status and the scores."""
    WHO.set(asked["name"])
    note = functools.partial(_note, asyncio.get_running_loop())
    task = asyncio.current_task()
    running.add(task)
    try:
        result = await async_launch(
            OrchestrationSpec(
                name=asked["name"],
                requests=[RunRequestSpec(**request) for request in asked["requests"]],
            ),
            on_progress=lambda event: note(event["event"]),
            on_request_finished=lambda outcome: note(f"{outcome.name} is {outcome.status}"),
            progress="none",
            **asked["arguments"],
        )
    finally:
        running.discard(task)
        note("over")
    scores = {name: outcome.result["summary"]["score"] for name, outcome in result.requests.items()}
    return {"status": result.status, "scores": scores}


def _note(loop: asyncio.AbstractEventLoop, what: str) -> None:
    is_main = threading.current_thread() is threading.main_thread()
    is_here = is_main and asyncio.get_running_loop() is loop
    told.append({"what": what, "who": WHO.get(), "is_here": is_here})


async def wait(request):
    """The answer comes when the launch is over; a watcher ends it when the client has gone."""
    work = asyncio.create_task(evaluate(await request.json()))
    watcher = asyncio.create_task(_cancel_when_gone(request, work))
    try:
        return JSONResponse(await work)
    finally:
        watcher.cancel()


async def _cancel_when_gone(request, work):
    while (await request.receive())["type"] != "http.disconnect":
        pass
    work.cancel()


async def stream(request):
    """The launch is awaited by what makes the answer, which Starlette ends when the client has gone."""
    asked = await request.json()

    async def lines():
        yield "launched\n"
        yield json.dumps(await evaluate(asked))

    return StreamingResponse(lines())


async def show(_request):
    return JSONResponse(told)


@contextlib.asynccontextmanager
async def lifespan(_app):
    yield
    while running:  # uvicorn has cancelled them; their sandboxes go first
        await asyncio.wait(running)
    print(json.dumps(told), flush=True)


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/wait", wait, methods=["POST"]),
        Route("/stream", stream, methods=["POST"]),
        Route("/told", show),
    ],
)


def main() -> None:
    """Serve on a free port of 127.0.0.1."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
