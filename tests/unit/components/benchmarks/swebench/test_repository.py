"""What the scripts do to a repository: nothing of the future is left in it, and every change becomes a patch."""

import importlib.resources
import os
import shutil
import subprocess

import pytest

from support.git_server import QUIET, git

SCRIPTS = importlib.resources.files("agentcompass.components.benchmarks.swebench")
BIG_KB, MAX_BYTES = 64, 500_000


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A repository whose history goes on after what is checked out, in every way that it can."""
    folder = tmp_path_factory.mktemp("template")
    origin, work = folder / "origin", folder / "work"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main", ".")
    commit(origin, "old", {"a.py": "a = 1\n", "pkg/b.py": "b = 1\n", ".gitignore": "*.log\n"})
    git(origin, "tag", "v1")
    commit(origin, "base", {"a.py": "a = 2\n"})
    git(origin, "tag", "-a", "-m", "x", "v2")
    commit(origin, "SOLUTION", {"a.py": "a = 'SOLUTION'\n"})
    git(origin, "tag", "v3")
    git(origin, "branch", "later")
    git(folder, "clone", "--quiet", str(origin), str(work))
    git(work, "branch", "mine", "origin/later")
    git(work, "update-ref", "refs/pull/1/head", "v3")
    git(work, "notes", "add", "-m", "SOLUTION", "v3")
    git(work, "reset", "--quiet", "--hard", "v2")
    (work / "a.py").write_text("a = 'SOLUTION in the stash'\n")
    git(work, "stash")
    git(work, "worktree", "add", "--quiet", str(folder / "linked"), "v3")
    return folder


@pytest.fixture
def repository(template, tmp_path):
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path / "work"


def commit(work, message, files):
    for name, content in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(content)
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", message)


def script(name, *arguments, env=None):
    """Run a script as a sandbox does."""
    return subprocess.run(
        ["sh", "-s", "--", *map(str, arguments)],
        input=(SCRIPTS / name).read_text(),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def ours(tmp_path):
    return tmp_path / "ours"


@pytest.fixture
def prepared(repository, ours):
    done = script("prepare.sh", repository, ours)
    assert done.returncode == 0, done.stderr
    return repository


@pytest.fixture
def collect(repository, ours):
    """Makes the patch; returns it and the notes."""

    def collect(**options):
        done = script("collect.sh", repository, ours, BIG_KB, MAX_BYTES, **options)
        assert done.returncode == 0, done.stderr
        return (ours / "patch.diff").read_bytes(), (ours / "notes.txt").read_text().splitlines()

    return collect


@pytest.fixture
def pristine(repository, tmp_path):
    """A copy as it was before the agent came, in which a patch is tried."""
    copy = tmp_path / "pristine"
    shutil.copytree(repository, copy, symlinks=True)

    def apply(patch):
        done = subprocess.run(
            ["git", "apply", "--verbose", "-"],
            check=False,
            cwd=copy,
            input=patch,
            env=QUIET,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        return copy

    return apply


# --- the past


def test_nothing_that_came_later_is_left(prepared):
    reachable = git(prepared, "log", "--all", "--format=%s").splitlines()
    assert set(reachable) == {"base", "old"}
    objects = git(prepared, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    contents = [git(prepared, "cat-file", "-p", name) for name in objects.split()]
    assert not any("SOLUTION" in content for content in contents)
    assert git(prepared, "fsck", "--unreachable", "--no-reflogs") == ""
    left = subprocess.run(
        ["grep", "-rl", "SOLUTION", str(prepared)], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""


def test_what_is_checked_out_and_the_tags_of_its_past_stay(prepared):
    assert git(prepared, "log", "-1", "--format=%s") == "base"
    assert git(prepared, "status", "--porcelain") == ""
    assert git(prepared, "for-each-ref", "--format=%(refname)").splitlines() == [
        "refs/heads/main",
        "refs/tags/v1",
        "refs/tags/v2",
    ]
    assert git(prepared, "describe") == "v2"
    assert git(prepared, "remote") == ""


def test_a_detached_head_stays(repository, ours):
    git(repository, "checkout", "--quiet", "--detach", "v2")
    assert script("prepare.sh", repository, ours).returncode == 0
    assert set(git(repository, "log", "--all", "--format=%s").splitlines()) == {"base", "old"}
    assert git(repository, "for-each-ref", "--format=%(refname)", "refs/heads") == ""


def test_objects_that_another_repository_lends_are_its_own_afterwards(repository, ours, tmp_path):
    lender = tmp_path / "lender"
    git(tmp_path, "clone", "--quiet", "--bare", str(tmp_path / "origin"), str(lender))
    (repository / ".git/objects/info/alternates").write_text(f"{lender}/objects\n")
    git(repository, "repack", "-a", "-d", "-l", "-q")
    assert script("prepare.sh", repository, ours).returncode == 0
    shutil.rmtree(lender)
    assert set(git(repository, "log", "--all", "--format=%s").splitlines()) == {"base", "old"}


def test_a_submodule_forgets_its_future_too_and_is_no_part_of_the_patch(
    repository, ours, collect, tmp_path
):
    origin = tmp_path / "origin"
    allowed = ("-c", "protocol.file.allow=always")
    git(repository, *allowed, "submodule", "--quiet", "add", str(origin), "sub")
    git(repository / "sub", "reset", "--quiet", "--hard", "v2")
    git(repository, "commit", "--quiet", "--all", "-m", "with a submodule")
    done = script("prepare.sh", repository, ours)
    assert done.returncode == 0, done.stderr
    assert set(git(repository / "sub", "log", "--all", "--format=%s").splitlines()) == {
        "base",
        "old",
    }
    (repository / "sub/a.py").write_text("changed\n")
    commit(repository / "sub", "mine", {})
    assert collect() == (b"", [])


def test_changes_that_the_image_has_are_kept_and_are_no_part_of_the_patch(
    repository, ours, collect
):
    (repository / "a.py").write_text("a = 'set up'\n")
    (repository / "new.py").write_text("new\n")
    git(repository, "rm", "--quiet", "--cached", "pkg/b.py")
    assert script("prepare.sh", repository, ours).returncode == 0
    assert (repository / "a.py").read_text() == "a = 'set up'\n"
    assert collect() == (b"", [])
    (repository / "a.py").write_text("a = 'mine'\n")
    patch, _ = collect()
    assert b"-a = 'set up'\n+a = 'mine'\n" in patch


def test_a_tree_without_a_repository_has_patches_too(repository, ours, collect):
    shutil.rmtree(repository / ".git")
    assert script("prepare.sh", repository, ours).returncode == 0
    assert collect() == (b"", [])
    (repository / "pkg/b.py").write_text("b = 2\n")
    patch, _ = collect()
    assert patch.startswith(b"diff --git a/pkg/b.py b/pkg/b.py")


def test_a_repository_without_a_commit_is_fine(tmp_path, ours):
    work = tmp_path / "empty"
    work.mkdir()
    git(work, "init", "--quiet", ".")
    (work / "x").touch()
    done = script("prepare.sh", work, ours)
    assert done.returncode == 0, done.stderr


def test_without_git_or_directory_it_says_so(repository, ours, tmp_path):
    assert script("prepare.sh", tmp_path / "nowhere", ours).returncode == 22
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("sh", "rm", "mkdir"):
        (empty / name).symlink_to(shutil.which(name))
    without = (SCRIPTS / "prepare.sh").read_text().replace("/usr/bin:/bin:/usr/local/bin:", "")
    done = subprocess.run(
        ["sh", "-s", "--", str(repository), str(ours)],
        input=without,
        text=True,
        env={"PATH": str(empty)},
        check=False,
    )
    assert done.returncode == 21


# --- the patch


def test_whoever_changes_nothing_leaves_an_empty_patch(prepared, collect):
    assert collect() == (b"", [])


def test_changes_of_every_kind_are_in_the_patch(prepared, collect, pristine):
    binary = bytes(range(256)) * 20
    (prepared / "a.py").write_text("a = 3\n")
    (prepared / "pkg/b.py").unlink()
    (prepared / "new dir").mkdir()
    (prepared / "new dir/é.py").write_text("x\n")
    (prepared / "image.png").write_bytes(binary)
    (prepared / "no-newline").write_text("x")
    (prepared / "run.sh").write_text("#!/bin/sh\n")
    (prepared / "run.sh").chmod(0o755)
    (prepared / "link").symlink_to("a.py")
    (prepared / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    patch, notes = collect()
    copy = pristine(patch)
    assert notes == []
    assert (copy / "a.py").read_text() == "a = 3\n"
    assert not (copy / "pkg/b.py").exists()
    assert (copy / "new dir/é.py").read_text() == "x\n"
    assert (copy / "image.png").read_bytes() == binary
    assert (copy / "no-newline").read_text() == "x"
    assert os.access(copy / "run.sh", os.X_OK)
    assert os.readlink(copy / "link") == "a.py"
    assert (copy / "windows.txt").read_bytes() == b"one\r\ntwo\r\n"


def test_a_binary_file_that_changes_is_in_the_patch(repository, ours, collect, pristine):
    (repository / "data.bin").write_bytes(bytes(1000))
    assert script("prepare.sh", repository, ours).returncode == 0
    (repository / "data.bin").write_bytes(b"\1" + bytes(999))
    patch, _ = collect()
    (repository / "data.bin").write_bytes(bytes(1000))
    assert b"GIT binary patch" in patch


def test_work_that_was_committed_staged_or_stashed_away_again_counts_as_it_lies_there(
    prepared, collect
):
    commit(prepared, "my work", {"a.py": "a = 'committed'\n"})
    (prepared / "pkg/b.py").write_text("b = 'staged'\n")
    git(prepared, "add", "--all")
    git(prepared, "checkout", "--quiet", "-b", "another")
    patch, _ = collect()
    assert b"+a = 'committed'" in patch
    assert b"+b = 'staged'" in patch


@pytest.mark.parametrize(
    "trick",
    [
        "no .git",
        "new .git",
        "broken .git",
        "broken index",
        "config",
        "attributes",
        "lock",
        "skipped",
    ],
)
def test_the_state_of_the_agent_s_repository_does_not_matter(prepared, collect, trick, tmp_path):
    (prepared / "a.py").write_text("a = 3\n")
    (prepared / "new.py").write_text("new = 1\n")
    inner = prepared / ".git"
    if trick == "skipped":
        git(prepared, "update-index", "--skip-worktree", "a.py")
    elif trick == "config":
        (inner / "config").write_text(
            "[core]\n excludesFile = /tmp/all\n fsmonitor = false\n[diff]\n noprefix = true\n external = false\n"
            '[alias]\n add = !false\n diff = !false\n[filter "x"]\n clean = sed s/3/4/\n required = true\n'
        )
    elif trick == "attributes":
        (prepared / ".gitattributes").write_text("*.py filter=x -diff text eol=crlf ident\n")
        (inner / "info/attributes").write_text("*.py binary\n")
    elif trick == "lock":
        (inner / "index.lock").touch()
    elif trick == "broken index":
        (inner / "index").write_bytes(b"rubbish")
    else:
        shutil.rmtree(inner)
        if trick == "new .git":
            git(prepared, "init", "--quiet", ".")
            commit(prepared, "all", {})
        elif trick == "broken .git":
            inner.write_text("gitdir: /nowhere\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n hooksPath = /nowhere\n[diff]\n noprefix = true\n")
    patch, _ = collect(env={"HOME": str(home), "GIT_INDEX_FILE": "/nowhere", "GIT_DIR": "/nowhere"})
    assert b"diff --git a/a.py b/a.py" in patch
    assert b"-a = 2\n+a = 3\n" in patch
    assert b"+new = 1\n" in patch


def test_what_is_ignored_and_what_tools_leave_behind_is_left_out(prepared, collect):
    for name in ("x.log", "pkg/__pycache__/b.cpython-311.pyc", ".pytest_cache/v", "patch.txt"):
        (prepared / name).parent.mkdir(parents=True, exist_ok=True)
        (prepared / name).write_text("x")
    assert collect() == (b"", [])


def test_a_tracked_file_that_would_be_ignored_counts(repository, ours, collect):
    (repository / "kept.log").write_text("1\n")
    git(repository, "add", "--force", "kept.log")
    git(repository, "commit", "--quiet", "-m", "x")
    assert script("prepare.sh", repository, ours).returncode == 0
    (repository / "kept.log").write_text("2\n")
    patch, _ = collect()
    assert b"-1\n+2\n" in patch


def test_a_repository_inside_is_left_out_and_hides_nothing(prepared, collect):
    (prepared / "other [x]").mkdir()
    git(prepared / "other [x]", "init", "--quiet", ".")
    commit(prepared / "other [x]", "x", {"file": "x\n"})
    git(prepared / "pkg", "init", "--quiet", ".")  # without a commit: git itself fails at that
    (prepared / "pkg/b.py").write_text("b = 2\n")
    (prepared / "pkg/c.py").write_text("c = 1\n")
    patch, notes = collect()
    assert notes == ["left-out other [x]"]
    assert b"-b = 1\n+b = 2\n" in patch
    assert b"pkg/c.py" in patch
    assert b"other" not in patch


def test_big_new_files_are_left_out_by_name(prepared, collect):
    (prepared / "core dump*").write_bytes(bytes(BIG_KB * 1024 + 5000))
    (prepared / "big.log").write_bytes(bytes(BIG_KB * 1024 + 5000))
    (prepared / "a.py").write_text("a = 3\n")
    patch, notes = collect()
    assert notes == ["left-out core dump*"]
    assert b"a.py" in patch
    assert b"core" not in patch


def test_a_patch_that_is_too_large_is_not_kept(prepared, collect):
    for number in range(20):
        (prepared / f"f{number}").write_bytes(os.urandom(40_000))
    patch, notes = collect()
    assert patch == b""
    assert notes[0].startswith("too-large ")
    assert int(notes[0].split()[1]) > MAX_BYTES


def test_a_directory_that_was_removed_is_a_patch_that_removes_it(prepared, collect):
    shutil.rmtree(prepared)
    patch, _ = collect()
    assert b"deleted file mode" in patch


def test_pipes_sockets_and_broken_links_stop_nothing(prepared, collect):
    os.mkfifo(prepared / "pipe")
    (prepared / "broken").symlink_to("/nowhere")
    (prepared / "a.py").write_text("a = 3\n")
    patch, _ = collect()
    assert b"a = 3" in patch


def test_without_what_it_compares_with_there_is_no_patch(prepared, ours):
    shutil.rmtree(ours)
    assert script("collect.sh", prepared, ours, BIG_KB, MAX_BYTES).returncode == 23


def test_a_patch_can_be_made_twice(prepared, collect):
    (prepared / "a.py").write_text("a = 3\n")
    assert collect() == collect()
