"""Claude Code as npm has it. Data only."""

from __future__ import annotations

from typing import Final

from agentcompass.components.harnesses.installed.published import Build, Published

VERSION: Final = "2.1.197"

_MACHINES: Final = ("linux-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl")
_CHECKSUMS: Final = {
    "linux-x64": "sha512-rIlKmrY0QMyHgPRX/MYWNj039vbypICvI9jVe3rs9Xy2RnNklySjyPxqh62QadznzoftEO23uYQ1tFePcQ//bg==",
    "linux-arm64": "sha512-sx6SoGj3MNR5CV+YDkNtbLHXa1tn3G8qcYFgm1gnvOi9ODQUKbhiPfankJfkTMDVekOvnKJhm6i9hGFIPzp7cQ==",
    "linux-x64-musl": "sha512-/Ij3+inZf96Lb1BLnO0rWArRi1HqIMh6HeGrQoykrp7a8Yj0SA1EQIO42kpNeVxM9z3o3xUaiIf0FRMzLIp6oQ==",
    "linux-arm64-musl": "sha512-r3taVK9rDaMahHkrCGV8wF1Sjphs7fqXy2ZEznyDGxUqeW6HxgkbG7dPplXnwwGiMTdYLrtQTQMN21ZTxcVHBA==",
}

CLAUDE_CODE: Final = Published(
    name="claude-code",
    command="claude",
    executable="claude",
    builds={
        machine: Build(package=f"@anthropic-ai/claude-code-{machine}") for machine in _MACHINES
    },
    checksums={(VERSION, machine): checksum for machine, checksum in _CHECKSUMS.items()},
)
