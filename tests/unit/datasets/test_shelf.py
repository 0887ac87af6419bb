"""Where data sets stand: a full disk, and what an interrupted or damaged one is taken for."""

import json

import pytest

from agentcompass.datasets import GitSource, HubSource
from agentcompass.datasets.sources import folder_name
from agentcompass.errors import PreflightError
from support.hub import content_of
from support.mounts import small_disk

NAME = "owner/data"
FILES = {"a.bin": bytes(range(256)) * 1500, "b.txt": b"b"}


async def test_a_full_disk_is_told_and_what_came_is_kept(hub, get, tmp_path):
    source = HubSource(repository=NAME, revision=hub.add(NAME, FILES))
    with small_disk(tmp_path / "small", "size=256k") as small:
        with pytest.raises(PreflightError, match=r"needs 0\.4 MB") as caught:
            await get(source, data_dir=small)
        assert "Free disk space" in caught.value.hint


async def test_a_disk_that_fills_up_under_git_is_told(git_server, get, tmp_path):
    source = GitSource(url=git_server.url("x"), revision=git_server.add("x", FILES))
    with small_disk(tmp_path / "small", "size=256k") as small:
        with pytest.raises(PreflightError, match=r"No space left|Out of diskspace") as caught:
            await get(source, data_dir=small)
        assert "Free disk space" in caught.value.hint


async def test_a_directory_that_was_not_put_in_place_is_not_taken_for_the_data(hub, get, tmp_path):
    source = HubSource(repository=NAME, revision=hub.add(NAME, FILES))
    part = tmp_path / "data/datasets" / f"{folder_name(source)}.part/files"
    part.mkdir(parents=True)
    (part / "left-over").touch()
    (part / "b.txt").write_bytes(b"b")
    assert content_of((await get(source)).directory) == FILES
    assert not any("b.txt" in path for path in hub.requests())


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 2, "revision": "x", "files": {}}'])
async def test_what_does_not_say_what_it_is_is_got_again(hub, get, content):
    source = HubSource(repository=NAME, revision=hub.add(NAME, FILES))
    obtained = await get(source)
    (obtained.directory.parent / "content.json").write_bytes(content)
    assert await get(source) == obtained
    assert content_of(obtained.directory) == FILES


async def test_its_content_is_written_down(hub, get):
    commit = hub.add(NAME, FILES)
    obtained = await get(HubSource(repository=NAME, revision="main"))
    content = json.loads((obtained.directory.parent / "content.json").read_text())
    assert content["revision"] == commit
    assert content["source"] == "owner/data@main"
    assert content["files"] == {name: len(data) for name, data in FILES.items()}


def test_every_source_has_a_folder_of_its_own():
    some = [
        HubSource(repository="a/b", revision="main"),
        HubSource(repository="a/b", revision="v1"),
        HubSource(repository="a/b", revision="main", kind="model"),
        HubSource(repository="a/b", revision="main", path="x"),
        HubSource(repository="a/b", revision="main", files=("x",)),
        GitSource(url="https://h/a/b", revision="main"),
    ]
    assert len({folder_name(source) for source in some}) == len(some)


def test_a_password_makes_no_difference_to_the_folder():
    one, other = (
        GitSource(url=f"https://{account}h/a.git", revision="main") for account in ("", "me:pw@")
    )
    assert folder_name(one) == folder_name(other)
    assert "pw" not in folder_name(other)
