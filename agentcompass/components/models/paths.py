"""From the base URL that a user wrote to the URLs that requests may have to go to. Pure."""

from __future__ import annotations

import re
from typing import Final

from agentcompass.components.models.protocols import operation_at_end

_VERSION: Final = re.compile(r"/v\d+[a-z0-9]*(/|$)")
"""A path that names a version of the API anywhere, as `/v1`, `/api/v3`, `/v1beta/openai`."""


def candidate_paths(base_path: str, operation: str) -> tuple[str, ...]:
    """Return where an operation may be, the likeliest first.

    A base URL is written with or without `/v1`, with or without the operation itself. Where the path names a version
    the operation follows it. A bare host most often has `/v1`; a path without a version is most often a prefix that is
    complete, as for the usual client libraries. The other form is tried when the server does not know the first.

    Args:
        base_path: The path of the base URL.
        operation: As `chat/completions`.
    """
    path = base_path.rstrip("/")
    ending = operation_at_end(path)
    if ending == operation:
        return (path,)
    if ending is not None:
        path = path.removesuffix("/" + ending)
    direct, versioned = f"{path}/{operation}", f"{path}/v1/{operation}"
    if _VERSION.search(path):
        return (direct,)
    is_prefix = bool(path) and operation != "messages"
    return (direct, versioned) if is_prefix else (versioned, direct)
