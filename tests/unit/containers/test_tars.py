"""Tar streams, made and laid out; what a hostile one may not do."""

import io
import os
import tarfile

import pytest

from agentcompass.containers import tars
from agentcompass.containers.errors import DockerError
from agentcompass.containers.tars import Entry


def ok():
    pass


def stream(*members, end=True):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, more in members:
            info = tarfile.TarInfo(name)
            content = more.pop("content", b"")
            info.size = len(content)
            for key, value in more.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
        size = file.tell()
    return file.getvalue() if end else file.getvalue()[:size]


def directory(name):
    return name, {"type": tarfile.DIRTYPE}


def file(name, content=b"x"):
    return name, {"content": content}


def link(name, to):
    return name, {"type": tarfile.SYMTYPE, "linkname": to}


def hard_link(name, to):
    return name, {"type": tarfile.LNKTYPE, "linkname": to}


def lay_out(data, target, *, base="/work/out", max_bytes=None):
    tars.unpack(io.BytesIO(data), ok, target=target, base=base, max_bytes=max_bytes)


def tree(target):
    return {str(path.relative_to(target)) for path in target.rglob("*")}


def test_a_tree_comes_back_as_it_was(tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "run").write_bytes(b"#!\n" * 100_000)
    (source / "sub" / "run").chmod(0o750)
    (source / "\udcff\nname").write_text("odd")
    names = ["sub", "sub/run", "\udcff\nname"]
    made = bytearray()
    entries = [Entry(name=f"out/{name}", source=source / name) for name in names]
    tars.pack([*entries, Entry(name="out/link", link="sub/run")], made.extend)
    lay_out(bytes(made), tmp_path / "copy")
    assert tree(tmp_path / "copy") == {*names, "link"}
    assert (tmp_path / "copy" / "link").read_bytes() == b"#!\n" * 100_000
    assert (tmp_path / "copy" / "sub" / "run").stat().st_mode & 0o777 == 0o750


def test_the_mode_of_a_file_gives_nobody_another_users_rights(tmp_path):
    lay_out(stream(("out", {"mode": 0o6755})), tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "name", ["../evil", "out/../../evil", "/etc/evil", "out/sub/../../../evil"], ids=str
)
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    with pytest.raises(DockerError, match="leads out") as caught:
        lay_out(stream(directory("out"), file(name)), tmp_path / "in" / "copy")
    assert caught.value.code == "path-outside"
    assert not caught.value.retryable
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        ("file", "file"),
        ("../out/file", "file"),
        ("/work/out/file", "file"),
        ("../file", None),
        ("/etc/passwd", None),
        ("../../../../etc/passwd", None),
        ("/work/outside", None),
    ],
)
def test_a_link_is_kept_if_it_stays_inside(tmp_path, to, kept):
    lay_out(stream(directory("out"), link("out/link", to)), tmp_path / "copy")
    found = tmp_path / "copy" / "link"
    assert (os.readlink(found) if found.is_symlink() else None) == kept


def test_nothing_is_written_through_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    data = stream(
        directory("out"), link("out/a", "b"), directory("out/b"), link("out/b/c", "../a"),
        file("out/a/file"),
    )  # fmt: skip
    with pytest.raises((DockerError, OSError)):
        lay_out(data + b"", tmp_path / "copy")
    assert list(outside.iterdir()) == []


def test_a_link_that_takes_a_files_place_later_leads_nowhere_for_it(tmp_path):
    (tmp_path / "precious").write_text("mine")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "file").symlink_to("../precious")
    lay_out(stream(directory("out"), file("out/file", b"theirs")), copy)
    assert (tmp_path / "precious").read_text() == "mine"
    assert (copy / "file").read_text() == "theirs"


def test_a_hard_link_is_another_name_of_the_copy(tmp_path):
    data = stream(directory("out"), file("out/first", b"one"), hard_link("out/second", "out/first"))
    lay_out(data, tmp_path / "copy")
    assert (tmp_path / "copy" / "second").read_bytes() == b"one"


@pytest.mark.parametrize("to", ["out/../../precious", "/precious", "../precious"])
def test_a_hard_link_that_leads_out_is_refused(tmp_path, to):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(DockerError, match="leads out"):
        lay_out(stream(directory("out"), hard_link("out/x", to)), tmp_path / "copy")


def test_a_hard_link_to_what_is_not_there_is_left_out(tmp_path):
    lay_out(stream(directory("out"), hard_link("out/x", "out/nothing")), tmp_path / "copy")
    assert tree(tmp_path / "copy") == set()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_left_out(tmp_path, kind):
    lay_out(stream(directory("out"), ("out/odd", {"type": kind})), tmp_path / "copy")
    assert tree(tmp_path / "copy") == set()


def test_what_is_no_file_itself_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="/work/out"):
        lay_out(stream(("out", {"type": tarfile.FIFOTYPE})), tmp_path / "copy")


def test_a_limit_is_met_before_the_content_is_written(tmp_path):
    data = stream(directory("out"), file("out/big", bytes(100_000)))
    with pytest.raises(DockerError, match="more than 50000 bytes") as caught:
        lay_out(data[:2000], tmp_path / "copy", max_bytes=50_000)
    assert caught.value.code == "artifact-too-large"
    lay_out(data, tmp_path / "copy", max_bytes=110_000)


def test_a_hundred_thousand_empty_files_are_not_nothing(tmp_path):
    names = (file(f"out/{number}", b"") for number in range(3000))
    with pytest.raises(DockerError, match="more than"):
        lay_out(stream(directory("out"), *names), tmp_path / "copy", max_bytes=1_000_000)


@pytest.mark.parametrize("cut", [0, 100, 512, 700, 1024, 1536, 2000, 2560])
def test_a_stream_that_was_cut_is_never_taken_for_whole(tmp_path, cut):
    data = stream(directory("out"), file("out/a", b"a"), file("out/b", bytes(5000)))
    with pytest.raises(DockerError, match="not complete") as caught:
        lay_out(data[:cut], tmp_path / "copy")
    assert caught.value.code == "archive-broken"


def test_a_stream_that_was_cut_between_two_files_is_not_complete(tmp_path):
    data = stream(directory("out"), file("out/zeros", bytes(4096)), end=False)
    with pytest.raises(DockerError, match="no end"):
        lay_out(data, tmp_path / "copy")


def test_words_of_the_engine_in_place_of_the_end_are_no_end(tmp_path):
    data = stream(directory("out"), file("out/a"), end=False)
    with pytest.raises(DockerError, match="not complete"):
        lay_out(data + b'{"message":"it was removed"}\n', tmp_path / "copy")


def test_directories_are_merged_and_files_replaced(tmp_path):
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    (copy / "sub" / "old").write_text("old")
    (copy / "sub" / "both").write_text("old")
    lay_out(stream(directory("out"), directory("out/sub"), file("out/sub/both", b"new")), copy)
    assert tree(copy) == {"sub", "sub/old", "sub/both"}
    assert (copy / "sub" / "both").read_text() == "new"


def test_a_single_file_is_laid_out_under_the_copys_own_name(tmp_path):
    lay_out(stream(file("out", b"content")), tmp_path / "deep" / "name")
    assert (tmp_path / "deep" / "name").read_bytes() == b"content"


def test_the_root_of_a_container_can_be_laid_out(tmp_path):
    members = directory("/"), directory("/etc"), file("/etc/x"), hard_link("/etc/y", "/etc/x")
    lay_out(stream(*members), tmp_path / "copy", base="/")
    assert tree(tmp_path / "copy") == {"etc", "etc/x", "etc/y"}
