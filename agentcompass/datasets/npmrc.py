"""Where npm packages come from on this machine, as npm itself would find out.

The strongest first: environment variables (`npm_config_registry`), `.npmrc` in the working directory, that of the user, that
of the machine. Source: npm's documentation, "config" and "npmrc".
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import httpx

from agentcompass.data import frozen

DEFAULT_REGISTRY: Final = "https://registry.npmjs.org/"
_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_PREFIX: Final = "npm_config_"


@frozen(kw_only=True)
class NpmConfig:
    """What npm is told."""

    values: Mapping[str, str]

    def registry_of(self, package: str) -> str:
        """Return the base URL of the registry for a package, with a slash at its end."""
        scope, has_scope, _ = package.partition("/")
        scoped = self.values.get(f"{scope}:registry") if has_scope else None
        return f"{(scoped or self.values.get('registry') or DEFAULT_REGISTRY).rstrip('/')}/"

    def authorization_for(self, url: str) -> Mapping[str, str]:
        """Return the header that authenticates at a URL; empty if there is none for it.

        Credentials are named after the address that they are for, without its scheme; the most precise one counts.
        """
        parsed = httpx.URL(url)
        place = f"//{parsed.netloc.decode('ascii')}{parsed.path}"
        while place != "//":
            if token := self.values.get(f"{place}:_authToken"):
                return {"Authorization": f"Bearer {token}"}
            if basic := self.values.get(f"{place}:_auth") or self._pair(place):
                return {"Authorization": f"Basic {basic}"}
            place = place[:-1] if place.endswith("/") else place[: place.rindex("/") + 1]
        return {}

    def _pair(self, place: str) -> str | None:
        user, encoded = self.values.get(f"{place}:username"), self.values.get(f"{place}:_password")
        if user is None or encoded is None:
            return None
        try:
            password = base64.b64decode(encoded).decode()
        except (binascii.Error, ValueError):
            return None
        return base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def npm_config(environ: Mapping[str, str], *, home: Path, directory: Path) -> NpmConfig:
    """Read what npm would. Blocking; a file that cannot be read says nothing.

    Args:
        environ: Environment variables.
        home: Of the user.
        directory: Where this runs.
    """
    own = {
        name[len(_PREFIX) :].lower(): value
        for name, value in environ.items()
        if name.lower().startswith(_PREFIX) and value
    }
    files = (
        Path(own.get("globalconfig", "/etc/npmrc")),
        Path(own.get("userconfig", home / ".npmrc")),
        directory / ".npmrc",
    )
    values: dict[str, str] = {}
    for file in files:
        values |= _read(file, environ)
    return NpmConfig(values=values | own)


def npm_config_here() -> NpmConfig:
    """Read what npm would in this process. Blocking."""
    return npm_config(os.environ, home=Path.home(), directory=Path.cwd())


def _read(file: Path, environ: Mapping[str, str]) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return dict(_pairs(lines, environ))


def _pairs(lines: Iterable[str], environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for line in map(str.strip, lines):
        name, equals, value = line.partition("=")
        if equals and not line.startswith((";", "#")):
            plain = value.strip().strip("\"'")
            yield name.strip(), _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), plain)
