"""Runs regular expressions in a process that can be killed: `re` itself cannot be interrupted.

Input: a JSON object with `text`, `extract` (a pattern or null), `patterns`, `ignore_case`, `cpu_seconds`. Output:
a JSON object with `extracted` (text or null) and `matches`. The limit is processor time, so that a busy machine changes
no verdict; it also ends the process if nobody is left to read its answer.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections import deque


def main() -> None:
    """Answer one request."""
    job = json.load(sys.stdin)
    limit = job["cpu_seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    flags = re.IGNORECASE if job["ignore_case"] else re.NOFLAG
    text = job["text"] if job["extract"] is None else _last(job["extract"], flags, job["text"])
    matches = text is not None and any(re.search(p, text, flags) for p in job["patterns"])
    json.dump({"extracted": text, "matches": matches}, sys.stdout)


def _last(pattern: str, flags: re.RegexFlag, text: str) -> str | None:
    """Return the first group, or all, of a pattern's last match."""
    matches = deque(re.finditer(pattern, text, flags), maxlen=1)
    if not matches:
        return None
    return matches[0][1] if matches[0].re.groups else matches[0][0]


if __name__ == "__main__":
    main()
