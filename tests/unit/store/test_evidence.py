"""Secrets are removed from files that components wrote by themselves."""

import os

import pytest

from agentcompass.secrets import Scrubber
from agentcompass.store import evidence

KEY = "sk-0123456789-secret"


@pytest.fixture
def scrubber():
    made = Scrubber()
    made.register(KEY)
    return made


@pytest.mark.parametrize("at", [0, 5, 1024 * 1024 - 7, 2 * 1024 * 1024 + 3])
def test_a_secret_anywhere_in_a_large_file_is_masked(tmp_path, scrubber, at):
    file = tmp_path / "below" / "log"
    file.parent.mkdir()
    file.write_bytes(b"\xff" * at + KEY.encode() + b"\x00" * 1000)
    file.chmod(0o640)
    evidence.scrub_folder(tmp_path, scrubber)
    assert file.read_bytes() == b"\xff" * at + b"[secret]" + b"\x00" * 1000
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["log"]


def test_a_file_without_one_is_not_touched(tmp_path, scrubber):
    file = tmp_path / "log"
    file.write_bytes(KEY.encode()[:-1])
    before = file.stat()
    evidence.scrub_folder(tmp_path, scrubber)
    assert file.stat() == before


def test_links_and_special_files_are_left_alone(tmp_path, scrubber):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    folder.mkdir()
    elsewhere.write_text(KEY)
    (folder / "link").symlink_to(elsewhere)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    evidence.scrub_folder(folder, scrubber)
    assert elsewhere.read_text() == KEY


def test_a_file_that_cannot_be_replaced_is_told_when_the_others_are_done(
    tmp_path, scrubber, monkeypatch
):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(KEY)
    (tmp_path / ".b.scrubbed").mkdir()  # its place is taken
    with pytest.raises(OSError, match="scrubbed"):
        evidence.scrub_folder(tmp_path, scrubber)
    assert [(tmp_path / name).read_text() for name in "abc"] == ["[secret]", KEY, "[secret]"]
