"""HTTP lanes, a small HTTP server, retry timing and endpoint limits: know nothing of evaluation.

Importing any of it imports httpx, in the way that takes least time.
"""

from __future__ import annotations

import sys

if "httpx" not in sys.modules:
    # Where click and rich are installed, httpx loads them for a command line of its own, which takes as long as all the
    # rest of it. A module that is None cannot be imported, and httpx is prepared for that.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # as `import` documents it
    try:
        import httpx as httpx
    finally:
        sys.modules.pop("httpx._main")
