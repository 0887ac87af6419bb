"""Codex as npm has it. Data only."""

from __future__ import annotations

from typing import Final

from agentcompass.components.harnesses.installed.published import Build, Published

VERSION: Final = "0.171.0"

_TRIPLES: Final = {
    "x64": "x86_64-unknown-linux-musl",
    "arm64": "aarch64-unknown-linux-musl",
}
"""By processor. It is linked statically, so that it runs with every C library."""
_CHECKSUMS: Final = {
    "x64": "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
    "arm64": "sha512-9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==",
}

CODEX: Final = Published(
    name="codex",
    command="codex",
    executable="bin/codex",
    builds={
        f"linux-{processor}{library}": Build(
            package="@openai/codex",
            version_suffix=f"-linux-{processor}",
            directory=f"package/vendor/{triple}",
        )
        for processor, triple in _TRIPLES.items()
        for library in ("", "-musl")
    },
    omit=("codex-resources/voice",),
    checksums={
        (VERSION, f"linux-{processor}{library}"): checksum
        for processor, checksum in _CHECKSUMS.items()
        for library in ("", "-musl")
    },
)
