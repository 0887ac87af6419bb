"""The URL of a model endpoint, its password kept apart. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, final
from urllib.parse import unquote

import attrs
import httpx

from agentcompass.data import frozen

_HINT: Final = "special characters in a user name or password must be percent-encoded"
_MAX_PORT: Final = 65535


@final
@frozen(kw_only=True)
class Address:
    """Where requests go. No field but `authorization` and `secrets` holds what stood before an `@`."""

    url: httpx.URL
    """Without user, password and fragment."""
    authorization: str | None = attrs.field(default=None, repr=False)
    """The value of an Authorization header, if the URL named a user."""
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    """What must not appear in any text."""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URL as a user wrote it.

        Raises:
            ValueError: It is not an absolute http or https URL. The message does not repeat it.
        """
        try:
            url = httpx.URL(text.strip())
        except (httpx.InvalidURL, ValueError, TypeError):
            # the parser's words may quote a part of a password that it took for a port
            raise ValueError(f"it is not a valid URL ({_HINT})") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise ValueError("it must begin with http:// or https:// and name a host")
        if (url.port or 0) > _MAX_PORT:
            raise ValueError(f"a port in a valid URL is at most {_MAX_PORT}")
        bare = url.copy_with(username=None, password=None, fragment=None)
        if not url.userinfo:
            return cls(url=bare)
        user, _, password = url.userinfo.decode("ascii").partition(":")
        pair = f"{unquote(user)}:{unquote(password)}"
        encoded = base64.b64encode(pair.encode()).decode("ascii")
        secrets = (unquote(password), password, pair, encoded)
        return cls(url=bare, authorization=f"Basic {encoded}", secrets=secrets)

    def with_path(self, path: str) -> Address:
        """Return the same with another path; the query stays."""
        return attrs.evolve(self, url=self.url.copy_with(path=path))

    def extended(self, suffix: str, query: Mapping[str, str]) -> Address:
        """Return the same with more at the end of its path, and in its query."""
        path = f"{self.path.rstrip('/')}{suffix}" if suffix else self.path
        url = self.url.copy_with(path=path)
        return attrs.evolve(self, url=url.copy_merge_params(query) if query else url)

    @property
    def path(self) -> str:
        """The path, decoded."""
        return self.url.path

    def __str__(self) -> str:
        # queries hold keys more often than they help to understand an error
        return str(self.url.copy_with(query=None))
