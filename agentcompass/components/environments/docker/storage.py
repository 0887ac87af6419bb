"""What a container has written: measured, where its engine cannot limit it, and bounded by ending the container."""

from __future__ import annotations

from typing import Final

import trio

from agentcompass.components.base import MiB
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask, path_of
from agentcompass.errors import SandboxError

PAUSE_SECONDS: Final = 5.0
"""Between two looks: a program writes some gigabytes in that time, so this spares the disk, not the last byte."""
_MEASURE_SECONDS: Final = 60.0


def is_unsupported(error: DockerError) -> bool:
    """Whether an engine refused to make a container since its storage cannot be limited."""
    return "storage-opt" in error.message.lower() or "storageopt" in error.message.lower()


async def written(docker: Docker, container: str) -> int | None:
    """Return the bytes that a container has in files beside those of its image; None if the engine cannot tell."""
    ask = Ask(
        "GET",
        path_of("containers", container, "json"),
        f"measure the container {container}",
        query={"size": True},
        seconds=_MEASURE_SECONDS,
    )
    size = (await docker.call(ask)).get("SizeRw")
    return size if isinstance(size, int) else None


async def bound(docker: Docker, container: str, limit_mb: int) -> None:
    """Watch a container; never returns.

    Raises:
        SandboxError: It has written more (code `storage-exceeded`).
    """
    while True:
        await trio.sleep(PAUSE_SECONDS)
        try:
            size = await written(docker, container)
        except DockerError:
            continue  # whoever uses the container will meet it
        if size is not None and size > limit_mb * MiB:
            raise SandboxError(
                f"it has written {size // MiB} MiB, more than storage_mb {limit_mb}",
                code="storage-exceeded",
                retryable=False,
            )
