import errno
import os

import pytest

from agentcompass.store.files import append_to, make_directory, replace_file
from support.descriptors import open_files
from support.disk import Disk


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_directories_is_used_all_the_same(tmp_path, number):
    def fault(_number, call):
        return number if call.name == "sync" and call.path == "." else None

    with Disk(tmp_path, fault).installed():
        replace_file(tmp_path / "x", b"content", sync=True)
    assert (tmp_path / "x").read_bytes() == b"content"


def test_a_directory_that_fails_to_sync_is_an_error(tmp_path):
    def fault(_number, call):
        return errno.EIO if call.name == "sync" and call.path == "." else None

    with Disk(tmp_path, fault).installed(), pytest.raises(OSError, match="Input/output error"):
        replace_file(tmp_path / "x", b"content", sync=True)


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "d").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "d", b"new", sync=False)

    def fault(_number, call):
        return errno.ENOSPC if call.name == "write" else None

    with Disk(tmp_path, fault).installed(), pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "x", b"new", sync=True)
    assert (tmp_path / "x").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["d", "x"]


def test_what_is_appended_says_where_it_begins_and_costs_no_descriptor(tmp_path):
    before = open_files()
    assert [append_to(tmp_path / "x", data) for data in (b"one", b"", b"three")] == [0, 3, 3]
    assert (tmp_path / "x").read_bytes() == b"onethree"
    assert open_files() <= before


def test_a_directory_is_made_with_those_above_it_and_may_be_there(tmp_path):
    for _ in range(2):
        make_directory(tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c").is_dir()
