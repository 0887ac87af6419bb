"""Directories of git repositories, from a server that runs the real `git http-backend`, or only serves files."""

import os
import shutil
import threading

import pytest
import trio

from agentcompass.datasets import GitSource, processes
from agentcompass.errors import ConfigurationError, PreflightError
from support.git_server import git
from support.hub import content_of, pointer
from support.loopback import Given

FILES = {
    "README.md": b"# Tasks\n",
    "tasks/one/task.toml": b"x = 1\n",
    "tasks/one/run.sh": b"#!/bin/sh\n",
    "tasks/two/task.toml": b"x = 2\n",
    "big/other.bin": os.urandom(200_000),
}


@pytest.fixture
def commit(git_server):
    return git_server.add("tasks", FILES)


@pytest.fixture
def source(git_server):
    def source(revision, path="", **changes):
        return GitSource(url=git_server.url("tasks"), revision=revision, path=path, **changes)

    return source


async def test_a_commit_comes_whole_and_without_its_history(commit, source, get):
    obtained = await get(source(commit))
    assert content_of(obtained.directory) == FILES
    assert obtained.revision == commit


async def test_of_a_directory_only_its_files_are_fetched(commit, git_server, source, get):
    obtained = await get(source(commit, "tasks/one"))
    assert content_of(obtained.directory) == {"task.toml": b"x = 1\n", "run.sh": b"#!/bin/sh\n"}
    sent = [asked for asked in git_server.server.asked if asked.method == "POST"]
    assert any(b"filter blob:none" in asked.body for asked in sent)


async def test_the_second_use_makes_no_request(commit, git_server, source, get):
    first = await get(source("main"))
    before = len(git_server.server.asked)
    assert await get(source("main")) == first
    assert len(git_server.server.asked) == before


@pytest.mark.parametrize("kind", ["branch", "tag", "annotated tag", "HEAD"])
async def test_a_name_is_resolved_to_its_commit(commit, git_server, source, get, kind):
    bare = git_server.root / "tasks.git"
    name = {"branch": "main", "HEAD": "HEAD"}.get(kind, "v1.0")
    if "tag" in kind:
        git(bare, "tag", *(["-a", "-m", "x"] if kind == "annotated tag" else []), name, commit)
        git_server.add("tasks", {"README.md": b"later"})
    obtained = await get(source(name))
    assert obtained.revision == commit
    assert content_of(obtained.directory) == FILES


async def test_an_older_commit_can_be_had(commit, git_server, source, get):
    git_server.add("tasks", {"README.md": b"later"})
    assert content_of((await get(source(commit))).directory) == FILES


@pytest.mark.parametrize("kind", ["files only", "names only"])
async def test_a_server_that_cannot_give_one_commit_gives_all(
    commit, git_server, source, get, kind
):
    git_server.add("tasks", {"README.md": b"later"})
    git_server.is_dumb, git_server.refuses_commits = kind == "files only", kind == "names only"
    obtained = await get(source(commit, "tasks/one"))
    assert content_of(obtained.directory)["task.toml"] == b"x = 1\n"


async def test_a_commit_that_is_not_there_is_told(commit, source, get):
    with pytest.raises(PreflightError, match=r"has no commit 0000|not our ref"):
        await get(source("0" * 40))


async def test_a_branch_or_directory_that_is_not_there_is_told(commit, source, get):
    with pytest.raises(PreflightError, match="has no branch and no tag 'nowhere'"):
        await get(source("nowhere"))
    with pytest.raises(PreflightError, match="has no directory 'no/where'"):
        await get(source(commit, "no/where"))


async def test_a_repository_that_is_not_there_is_told_with_git_s_words(git_server, get):
    with pytest.raises(PreflightError, match="not found"):
        await get(GitSource(url=git_server.url("nothing"), revision="main"))


async def test_a_server_that_is_not_there_is_told_once(get):
    with pytest.raises(PreflightError, match="Failed to connect"):
        await get(GitSource(url="http://127.0.0.1:1/x.git", revision="a" * 40))


async def test_a_fetch_that_fails_for_a_moment_is_tried_again(commit, git_server, source, get):
    git_server.server.fail("/git-upload-pack", Given(status=503), method="POST")
    assert content_of((await get(source(commit))).directory) == FILES


async def test_a_file_that_was_removed_is_got_again(commit, source, get):
    obtained = await get(source(commit))
    (obtained.directory / "README.md").unlink()
    assert content_of((await get(source(commit))).directory) == FILES


# --- passwords, and what else runs


async def test_a_password_in_the_url_is_used_and_shown_nowhere(
    commit, git_server, get, tmp_path, monkeypatch
):
    git_server.account = ("me", "p@ss word")
    url = git_server.url("tasks").replace("//", "//me:p%40ss%20word@")
    seen = tmp_path / "seen"
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    # what `ps` would show of the program and of those that it starts
    wrapper.write_text(
        f'#!/bin/sh\nGIT_TRACE=2 GIT_CURL_VERBOSE= GIT_TRACE={seen} exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    obtained = await get(GitSource(url=url, revision=commit))
    assert content_of(obtained.directory) == FILES
    assert "run_command" in seen.read_text()
    for text in (seen.read_text(), str(obtained), *get.told):
        assert "p@ss" not in text
        assert "p%40ss" not in text
    assert "p@ss" not in (obtained.directory.parent / "content.json").read_text()


async def test_a_wrong_password_is_told_without_a_question(commit, git_server, get):
    git_server.account = ("me", "right")
    url = git_server.url("tasks").replace("//", "//me:wrong-one@")
    with pytest.raises(PreflightError, match="Authentication failed") as caught:
        await get(GitSource(url=url, revision=commit))
    assert "needs a login" in caught.value.hint
    assert "wrong-one" not in str(caught.value)


async def test_a_repository_that_wants_a_login_is_told_without_a_question(
    commit, git_server, source, get
):
    git_server.account = ("me", "right")
    with pytest.raises(PreflightError, match="could not read Username"):
        await get(source(commit))


async def test_without_git_it_is_told(commit, source, get, monkeypatch):
    monkeypatch.setattr(processes.shutil, "which", lambda name: None)
    with pytest.raises(PreflightError, match="there is no git on this machine") as caught:
        await get(source(commit))
    assert "apt-get install git" in caught.value.hint


async def test_a_git_that_started_us_does_not_lend_us_its_repository(
    commit, source, get, monkeypatch, tmp_path
):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert content_of((await get(source(commit))).directory) == FILES
    assert not (tmp_path / "elsewhere").exists()


async def test_cancelling_ends_git_and_its_children(commit, git_server, source, get, tmp_path):
    gate = threading.Event()
    git_server.server.spoil("/info/refs", cut_after=10, gate=gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, source(commit))
        while not git_server.server.asked:
            await trio.sleep(0.01)
        assert _commands(tmp_path)
        nursery.cancel_scope.cancel()
    with trio.fail_after(10):  # they are killed, and the system takes its time
        while _commands(tmp_path):
            await trio.sleep(0.01)
    gate.set()


def _commands(tmp_path):
    """Processes that work in the test's directory."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(str(tmp_path)):
                found.append(name)
        except OSError:
            continue
    return found


# --- what is refused


@pytest.mark.parametrize("to", ["/etc/passwd", "../../../../etc/passwd", "../README.md"])
async def test_a_link_that_leads_out_is_refused(git_server, source, get, to):
    commit = git_server.add("tasks", FILES, links=[("tasks/link", to)])
    with pytest.raises(PreflightError, match="its link link leads out of it"):
        await get(source(commit, "tasks"))


async def test_a_link_that_stays_inside_is_kept(git_server, source, get):
    commit = git_server.add("tasks", FILES, links=[("tasks/three", "one")])
    obtained = await get(source(commit, "tasks"))
    assert (obtained.directory / "three").is_symlink()
    assert (obtained.directory / "three/task.toml").read_bytes() == b"x = 1\n"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "ext::sh -c evil"}, "is no URL"),
        ({"url": "--upload-pack=evil"}, "is no URL"),
        ({"url": "/a/path"}, "is no URL"),
        ({"revision": "-x"}, "is no revision"),
        ({"revision": "a..b"}, "is no revision"),
        ({"path": "/abs"}, "cannot be a path"),
        ({"path": "a/../../b"}, "cannot be a path"),
    ],
)
def test_a_source_that_cannot_be_is_a_configuration_error(fields, words):
    with pytest.raises(ConfigurationError, match=words):
        GitSource(**{"url": "https://example.org/x.git", "revision": "main", **fields})


# --- what git-lfs keeps


LARGE = {"tasks/one/image.png": os.urandom(300_000), "tasks/two/image.png": b"small"}


async def test_pointer_files_of_git_lfs_are_resolved_without_it(git_server, source, get):
    files = {**FILES, ".gitattributes": b"*.png filter=lfs -text\n", **LARGE}
    commit = git_server.add("tasks", files, lfs=LARGE)
    obtained = await get(source(commit, "tasks/one"))
    assert content_of(obtained.directory)["image.png"] == LARGE["tasks/one/image.png"]
    wanted = [asked for asked in git_server.server.asked if asked.path.endswith("/batch")]
    assert len(wanted) == 1
    assert wanted[0].body.count(b'"oid"') == 1


async def test_a_file_that_only_looks_like_a_pointer_stays_what_it_is(git_server, source, get):
    files = {"fixture.txt": pointer(b"x")}
    obtained = await get(source(git_server.add("tasks", files)))
    assert content_of(obtained.directory) == files


async def test_objects_need_the_login_of_the_repository(git_server, get):
    files = {".gitattributes": b"*.png filter=lfs\n", **LARGE}
    commit = git_server.add("tasks", files, lfs=LARGE)
    git_server.account = ("me", "right")
    url = git_server.url("tasks").replace("//", "//me:right@")
    obtained = await get(GitSource(url=url, revision=commit))
    assert content_of(obtained.directory) == files


async def test_an_object_that_the_server_lacks_is_told(git_server, source, get):
    files = {".gitattributes": b"*.png filter=lfs\n", **LARGE}
    commit = git_server.add("tasks", files, lfs=LARGE)
    git_server.objects.clear()
    with pytest.raises(PreflightError, match=r"has no object .*: Object does not exist \(404\)"):
        await get(source(commit))


async def test_an_object_with_a_wrong_checksum_is_an_error_that_names_the_file(
    git_server, source, get
):
    files = {".gitattributes": b"*.png filter=lfs\n", "a.png": b"right"}
    commit = git_server.add("tasks", files, lfs=["a.png"])
    oid = next(iter(git_server.objects))
    git_server.objects[oid] = b"wrong"
    with pytest.raises(PreflightError, match=r"a\.png has not the checksum"):
        await get(source(commit))
