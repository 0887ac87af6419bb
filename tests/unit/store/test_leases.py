import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.store.leases import LeaseBook, find_leases
from support.storage import lease, write_run


def test_a_lease_is_there_until_it_is_removed(tmp_path):
    book = LeaseBook(tmp_path / "leases")
    one, two = lease("l1", details={"dir": "/x"}), lease("l2", keep=True)
    book.write(one)
    book.write(two)
    assert book.list() == (one, two)
    book.remove("l1")
    book.remove("l1")
    assert book.list() == (two,)


def test_nothing_is_made_before_the_first_lease(tmp_path):
    book = LeaseBook(tmp_path / "leases")
    assert book.list() == ()
    book.remove("never")
    assert not (tmp_path / "leases").exists()


def test_writing_a_lease_again_changes_it(tmp_path):
    book = LeaseBook(tmp_path)
    book.write(lease())
    book.write(lease(keep=True))
    assert book.list() == (lease(keep=True),)


def test_a_lease_id_cannot_leave_the_directory(tmp_path):
    book = LeaseBook(tmp_path / "leases")
    book.write(lease("../../x"))
    assert len(book.list()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["leases"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"id": "x"}', b'{"owner": 5}', b"\xff", b'{"schema": 99}'],
)
def test_a_corrupt_lease_is_reported_and_hides_no_other(tmp_path, content):
    book = LeaseBook(tmp_path)
    book.write(lease())
    (tmp_path / "bad.json").write_bytes(content)
    (tmp_path / ".l9.json.1-2.tmp").write_bytes(b"half")
    seen = []
    assert book.list(lambda path, reason: seen.append((path.name, reason))) == (lease(),)
    assert [name for name, _ in seen] == ["bad.json"]
    assert seen[0][1]


def test_a_place_for_leases_that_is_no_directory_is_reported(tmp_path):
    (tmp_path / "leases").touch()
    seen = []
    assert LeaseBook(tmp_path / "leases").list(lambda *what: seen.append(what)) == ()
    assert seen == [(tmp_path / "leases", "Not a directory")]


def test_a_lease_that_is_removed_while_others_are_read_is_not_missed(tmp_path):
    book = LeaseBook(tmp_path)
    for lease_id in ("l2", "l3"):
        book.write(lease(lease_id))
    (tmp_path / "l1.json").write_bytes(b"corrupt")
    seen = []

    def remove(path, _reason):
        seen.append(path.name)
        book.remove("l2")

    assert book.list(remove) == (lease("l3"),)
    assert seen == ["l1.json"]


def test_a_corrupt_lease_is_logged_by_default(tmp_path, caplog):
    (tmp_path / "bad.json").write_bytes(b"{")
    assert LeaseBook(tmp_path).list() == ()
    assert "bad.json" in caplog.text


def test_unknown_fields_of_a_newer_version_are_ignored(tmp_path):
    book = LeaseBook(tmp_path)
    book.write(lease())
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":1,"zone":"eu"'))
    assert book.list() == (lease(),)


def test_leases_of_all_runs_are_found_and_planted_ones_are_not(tmp_path):
    paths = write_run(tmp_path / "ns/r1")
    LeaseBook(paths.leases_dir).write(lease("l1"))
    other, planted = tmp_path / "name/ns/r2", paths.attempt_dir("t1", 1)
    for folder, lease_id in ((other, "l2"), (planted, "planted")):
        folder.mkdir(parents=True)
        LeaseBook(folder / "leases").write(lease(lease_id))
    found = {file: one.id for file, one in find_leases(tmp_path)}
    assert found == {
        paths.leases_dir / "l1.json": "l1",
        tmp_path / "name/ns/r2/leases/l2.json": "l2",
    }
    assert [one.id for _, one in find_leases(paths.run_dir)] == ["l1"]
    assert list(find_leases(tmp_path / "missing")) == []


def test_a_lease_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "leases").touch()
    with pytest.raises(StoreError, match="cannot write"):
        LeaseBook(tmp_path / "leases").write(lease())


def test_a_lease_with_odd_details_is_still_read(tmp_path):
    odd = attrs.evolve(lease(), task_id="a\u2028/\ud800")
    LeaseBook(tmp_path).write(odd)
    assert LeaseBook(tmp_path).list() == (odd,)
