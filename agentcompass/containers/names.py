"""How images may be called."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:\d+)?/)?{_PART}(/{_PART})*"
    r"(:\w[\w.-]{0,127})?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,})?",
    re.ASCII,
)
"""Source: the grammar of github.com/distribution/reference."""


def is_image_name(text: str) -> bool:
    """Whether a text can be the name of an image, such as `python:3.12-slim`."""
    return _IMAGE.fullmatch(text) is not None
