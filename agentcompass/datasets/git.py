"""Directories of one commit of a git repository: fetched as little as the server allows, and put where they are wanted."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from agentcompass.datasets import lfs
from agentcompass.datasets.names import refuse_links_outside
from agentcompass.datasets.processes import Git
from agentcompass.datasets.shelf import Shelf, explained
from agentcompass.datasets.sources import GitSource, is_commit
from agentcompass.errors import PreflightError
from agentcompass.net.retry import backoff_seconds

TRIES: Final = 3
"""Of a fetch that breaks off."""
BACKOFF_SECONDS = 2.0
"""Longest wait after the first failure; doubles."""
_HOPELESS: Final = re.compile(
    r"resolve host|resolve proxy|Failed to connect|Connection refused|Connection timed out|could not read Username|"
    r"Authentication failed|epository .*not found|Permission denied|does not appear to be a git repository|"
    r"certificate|returned error: 40[134]|No space left|Out of diskspace|Host key verification|not allowed|"
    r"Unable to find remote helper"
)
"""What no other way of fetching would change."""
_PASSING: Final = re.compile(
    r"early EOF|RPC failed|returned error: (5\d\d|429|408)|Connection reset|unexpected disconnect|Operation too slow|"
    r"hung up unexpectedly|unexpectedly closed|resolve host|timed out|Recv failure|Empty reply"
)
"""What may not come again."""


async def fill(source: GitSource, shelf: Shelf, tell: Callable[[str], None]) -> str:
    """Fetch what a source names into `shelf.files`; return the commit.

    Raises:
        PreflightError: It cannot be had.
    """
    await trio.to_thread.run_sync(shelf.clear)
    wanted = {source.path: [shelf.files]}
    return await check_out(source.url, source.revision, wanted, shelf, tell)


async def check_out(
    url: str,
    revision: str,
    wanted: Mapping[str, Sequence[Path]],
    shelf: Shelf,
    tell: Callable[[str], None],
) -> str:
    """Fetch one commit and put some of its directories to their places; return its id.

    Args:
        url: Of the repository.
        revision: Commit id, tag or branch.
        wanted: By path in the repository (empty for all): where it goes, one place or several.
        shelf: Work is done in its directory.
        tell: Takes lines about progress.

    Raises:
        PreflightError: The repository, the commit or a directory cannot be had.
    """
    work = shelf.part / "git"
    await trio.to_thread.run_sync(_make_anew, work)
    git = Git(url, work, tell)
    tell(f"fetching {git.url} at {revision}")
    commit = revision if is_commit(revision) else await _resolved(git, revision)
    await _fetch_and_check_out(git, commit, [] if "" in wanted else sorted(wanted))
    await lfs.resolve(git, url, commit, shelf, tell)
    with explained(shelf.files):
        await trio.to_thread.run_sync(_place, work, wanted, f"{git.url} at {commit}")
        await trio.to_thread.run_sync(shutil.rmtree, work)
    return commit


async def _resolved(git: Git, revision: str) -> str:
    """Return the commit that a tag or branch is now."""
    output = await git.run(
        "ls-remote",
        "--",
        git.url,
        revision,
        f"{revision}^{{}}",
        what="asking for its branches and tags",
    )
    lines = [line.partition("\t") for line in output.decode().splitlines()]
    ids = {name: commit for commit, _, name in lines}
    for name in (
        f"refs/tags/{revision}^{{}}",
        f"refs/tags/{revision}",
        f"refs/heads/{revision}",
        revision,
    ):
        if name in ids:
            return ids[name]
    raise PreflightError(
        f"{git.url} has no branch and no tag {revision!r}",
        hint="Give a commit id in full, a tag or a branch.",
    )


async def _fetch_and_check_out(git: Git, commit: str, paths: Sequence[str]) -> None:
    """Get the files of a commit, of some directories if paths are given, in the cheapest way that works."""
    ways: list[tuple[str, ...]] = [
        ("--depth=1", "origin", commit),
        # servers of another kind, and those that give no commit by its id: all that they advertise
        (
            "origin",
            "+refs/heads/*:refs/remotes/origin/*",
            "+refs/tags/*:refs/tags/*",
            "+HEAD:refs/remotes/origin/HEAD",
        ),
    ]
    if paths:
        ways.insert(0, ("--filter=blob:none", *ways[0]))
    for way in ways:
        # From nothing: a fetch with a filter that failed leaves a repository which asks for what it lacks, again and
        # again without end where the server cannot give it.
        await trio.to_thread.run_sync(_make_anew, git.directory)
        await git.run("init", "--quiet", "--template=")
        await git.run("remote", "add", "origin", git.url)
        code, errors = await _persist(git, "fetch", "--progress", "--no-tags", *way)
        what = "fetching"
        if code == 0 and await _has(git, commit):
            code, errors = await _check_out(git, commit, paths)
            what = "checking out"
            if code == 0:
                return
        elif code == 0:
            raise PreflightError(f"{git.url} has no commit {commit} on any branch or tag")
        if way is ways[-1] or _HOPELESS.search(errors):
            raise git.failed(what, code, errors)


async def _persist(git: Git, *arguments: str) -> tuple[int, str]:
    """Run a command that uses the network, again if it breaks off; return its exit code and last words."""
    failures = 0
    while True:
        code, _, errors = await git.attempt(*arguments)
        failures += 1
        if code == 0 or failures == TRIES or not _PASSING.search(errors):
            return code, errors
        wait = backoff_seconds(
            failures, base_seconds=BACKOFF_SECONDS, cap_seconds=30.0, random=random
        )
        await trio.sleep(wait)


async def _has(git: Git, commit: str) -> bool:
    code, _, _ = await git.attempt("cat-file", "-e", f"{commit}^{{commit}}")
    return code == 0


async def _check_out(git: Git, commit: str, paths: Sequence[str]) -> tuple[int, str]:
    if paths:
        await git.run("sparse-checkout", "init", "--cone")
        listed = "\n".join(paths).encode()
        await git.run("sparse-checkout", "set", "--stdin", stdin=listed)
    return await _persist(git, "checkout", "--quiet", "--force", "--detach", commit)


def _make_anew(directory: Path) -> None:
    with explained(directory):
        with suppress(FileNotFoundError):
            shutil.rmtree(directory)
        directory.mkdir(parents=True)


def _place(work: Path, wanted: Mapping[str, Sequence[Path]], what: str) -> None:
    """Put directories of a checkout to their places, as links to the same files."""
    shutil.rmtree(work / ".git")
    for path, targets in wanted.items():
        source = work / path if path else work
        if source.is_symlink() or not source.is_dir():
            raise PreflightError(f"{what} has no directory {path!r}")
        refuse_links_outside(source, f"{what} ({path})" if path else what)
        for target in targets:
            shutil.copytree(source, target, symlinks=True, copy_function=_link, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)
