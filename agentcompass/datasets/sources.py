"""Where a published data set is: a git repository, a repository of the Hugging Face hub, or a Harbor registry. Data only."""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal, TypeAlias

import attrs
import httpx

from agentcompass.data import frozen
from agentcompass.datasets.names import checked_path, readable
from agentcompass.errors import ConfigurationError

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REVISION: Final = re.compile(r"[A-Za-z0-9_][^\s\\^:?*\[~\x00-\x1f\x7f]*")
_REPOSITORY: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SCP_LIKE: Final = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:[^\x00-\x1f]+")
_GIT_SCHEMES: Final = ("https://", "http://", "ssh://", "git://", "file://")


def is_commit(revision: str) -> bool:
    """Whether a revision is a full commit id, which can never come to mean anything else."""
    return _COMMIT.fullmatch(revision) is not None


@frozen(kw_only=True)
class GitSource:
    """A directory of a git repository, without its history and its submodules. ConfigurationError for what is none."""

    url: str
    """As for `git clone`: https, http, ssh, git or file."""
    revision: str
    """A commit id in full; or a tag or branch, which is resolved when it is first obtained and then stays."""
    path: str = ""
    """The directory; empty for all."""

    def __attrs_post_init__(self) -> None:
        if not self.url.startswith(_GIT_SCHEMES) and not _SCP_LIKE.fullmatch(self.url):
            raise ConfigurationError(
                f"{without_password(self.url)!r} is no URL of a git repository",
                hint=f"It begins with one of {', '.join(_GIT_SCHEMES)}, or is like git@host:path.",
            )
        _check_revision(self.revision)
        checked_path(self.path, "a path of a data set", may_be_empty=True)

    def __str__(self) -> str:
        return _named(without_password(self.url), self.revision, self.path)


@frozen(kw_only=True)
class HubSource:
    """Files of a repository of the Hugging Face hub. ConfigurationError for what is none."""

    repository: str
    """`owner/name`."""
    revision: str
    """A commit id in full; or a tag or branch, which is resolved when it is first obtained and then stays."""
    kind: Literal["dataset", "model"] = "dataset"
    path: str = ""
    """The directory; empty for all."""
    files: tuple[str, ...] = ()
    """Shell patterns for paths below `path`, in which `*` stands for any characters, `/` too; none for all files."""

    def __attrs_post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository) or ".." in self.repository:
            raise ConfigurationError(
                f"{self.repository!r} is no name of a repository of the Hugging Face hub",
                hint="It is like `owner/name`.",
            )
        _check_revision(self.revision)
        checked_path(self.path, "a path of a data set", may_be_empty=True)

    def __str__(self) -> str:
        return _named(self.repository, self.revision, self.path)


@frozen(kw_only=True)
class RegistrySource:
    """The tasks of a data set that a Harbor registry lists, each a directory of some git repository."""

    url: str
    """Of the `registry.json`; http or https."""
    name: str
    version: str | None = None
    """None: `head` if there is one, else the highest; resolved when it is first obtained."""

    def __attrs_post_init__(self) -> None:
        if not self.url.startswith(("https://", "http://")):
            raise ConfigurationError(f"{self.url!r} is no http or https URL of a registry")

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


Source: TypeAlias = GitSource | HubSource | RegistrySource


def folder_name(source: Source) -> str:
    """Return the name of the folder for what a source gives: readable, and another one for any other source."""
    fields = attrs.asdict(source)
    if isinstance(source, GitSource):
        fields["url"] = without_password(source.url)
    identity = repr((type(source).__name__, sorted(fields.items())))
    return f"{readable(str(source))}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def without_password(url: str) -> str:
    """Return a URL without the user and password that it may name; a user of ssh stays."""
    if not url.startswith(("https://", "http://")):
        return url
    try:
        return str(httpx.URL(url).copy_with(username=None, password=None))
    except (httpx.InvalidURL, ValueError):
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"


def _check_revision(revision: str) -> None:
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise ConfigurationError(
            f"{revision!r} is no revision", hint="Give a commit id, a tag or a branch."
        )


def _named(where: str, revision: str, path: str) -> str:
    short = revision[:12] if is_commit(revision) else revision
    return f"{where}@{short}" + (f" ({path})" if path else "")
