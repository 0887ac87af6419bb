"""The board on which users of an endpoint on this machine tell each other how they stand; with real processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from agentcompass.net.board import BoardError, Membership, board_dir, endpoint_hash
from agentcompass.net.shares import Company, Standing
from support.mounts import small_disk

TOPIC = endpoint_hash("https://api.example.com", "sk-secret")
OWN = Standing(cap=64, in_use=5, waiting=1)


class User:
    """A user of the board in a process of its own."""

    def __init__(self, directory, *, in_use=0, waiting=0, topic=TOPIC):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "support.board_user",
                directory,
                topic,
                str(in_use),
                str(waiting),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.process.stdout.readline() == "ready\n"

    def exchange(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        others, rank, in_use = map(int, self.process.stdout.readline().split())
        return others, rank, in_use

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def user(tmp_path):
    with contextlib.ExitStack() as ending:

        def make(**options):
            made = User(tmp_path, **options)
            ending.callback(made.kill)
            return made

        yield make


def visible(directory):
    return [path for path in directory.iterdir() if not path.name.startswith(".")]


def test_processes_see_each_other_and_agree_on_their_order(tmp_path, user):
    users = [user(in_use=n) for n in (1, 10, 100)]
    for each in users:
        each.exchange()
    seen = [each.exchange() for each in users]
    assert [others for others, _, _ in seen] == [2, 2, 2]
    assert sorted(rank for _, rank, _ in seen) == [0, 1, 2]
    assert [in_use for _, _, in_use in seen] == [110, 101, 11]


def test_what_a_killed_process_held_comes_back_at_once_and_its_file_goes(tmp_path, user):
    other = user(in_use=30)
    other.exchange()
    membership = Membership(tmp_path, TOPIC)
    assert membership.exchange(OWN).in_use == 30
    other.kill()
    assert membership.exchange(OWN).others == ()
    assert len(visible(tmp_path)) == 1
    membership.leave()


def test_a_stopped_process_is_left_no_share_until_it_goes_on(tmp_path, user):
    other = user(in_use=30)
    other.exchange()
    other.process.send_signal(signal.SIGSTOP)
    membership = Membership(tmp_path, TOPIC)
    assert membership.exchange(OWN).in_use == 30
    later = Membership(tmp_path, TOPIC, clock=lambda: time.monotonic() + 20)
    later.exchange(OWN)
    assert [each.in_use for each in later.exchange(OWN).others] == []
    assert len(visible(tmp_path)) == 3
    other.process.send_signal(signal.SIGCONT)
    membership.leave()
    later.leave()


def test_other_endpoints_and_keys_are_other_boards(tmp_path, user):
    user(topic=endpoint_hash("https://api.example.com", "sk-other")).exchange()
    user(topic=endpoint_hash("https://api.example.org", "sk-secret")).exchange()
    membership = Membership(tmp_path, TOPIC)
    assert membership.exchange(OWN).others == ()
    membership.leave()


def test_whoever_leaves_is_not_seen_any_more(tmp_path):
    one, other = Membership(tmp_path, TOPIC), Membership(tmp_path, TOPIC)
    one.exchange(OWN)
    assert other.exchange(OWN).in_use == 5
    one.leave()
    one.leave()
    assert other.exchange(OWN).others == ()
    other.leave()
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_has_used_who_left_counts_until_it_is_settled(tmp_path):
    now = 100.0
    one = Membership(tmp_path, TOPIC, clock=lambda: now)
    one.exchange(OWN)
    used = Standing(cap=64, requests_settled_at=now + 30, tokens_settled_at=now + 50)
    one.leave(used)
    other = Membership(tmp_path, TOPIC, clock=lambda: now)
    for _ in range(2):
        company = other.exchange(OWN)
        assert (company.others, company.settled_at) == ((), (now + 30, now + 50))
    now += 51
    assert other.exchange(OWN) == Company()
    other.leave(used)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [-200.0, 4000.0], ids=["a new start", "too long ago"])
def test_what_a_file_says_from_another_time_counts_for_nothing(tmp_path, seconds):
    now = 300.0
    one = Membership(tmp_path, TOPIC, clock=lambda: now)
    one.exchange(OWN)
    one.leave(Standing(cap=64, requests_settled_at=now + 1e9))
    now += seconds
    other = Membership(tmp_path, TOPIC, clock=lambda: now)
    assert other.exchange(OWN).gone == ()
    other.leave()
    assert list(tmp_path.iterdir()) == []


def test_the_newest_word_of_each_counts(tmp_path):
    one, other = Membership(tmp_path, TOPIC), Membership(tmp_path, TOPIC)
    for waiting in (1_000_000, 7, 1_000, 0):
        one.exchange(Standing(cap=64, waiting=waiting))
        assert [each.waiting for each in other.exchange(OWN).others] == [waiting]
    one.leave()
    other.leave()


def test_nothing_of_endpoint_and_key_is_written_down(tmp_path):
    membership = Membership(tmp_path, TOPIC)
    membership.exchange(OWN)
    written = "".join(path.name + path.read_text() for path in tmp_path.iterdir())
    assert "secret" not in written
    assert "example" not in written
    membership.leave()


def test_a_file_that_is_half_written_counts_as_it_was_before(tmp_path):
    one, other = Membership(tmp_path, TOPIC), Membership(tmp_path, TOPIC)
    one.exchange(OWN)
    assert other.exchange(OWN).in_use == 5
    os.pwrite(one._descriptor, b"00000000 {", 0)
    assert other.exchange(OWN).in_use == 5
    one.leave()
    other.leave()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 5000, b"00000000 {}", b"zz {}", b"{}", b"99914b93 []\n", b"a" * 100_000],
    ids=range(7),
)
def test_files_that_say_nothing_that_can_be_read_are_passed_over(tmp_path, content):
    strange = tmp_path / f"{TOPIC}.0123"
    strange.write_bytes(content)
    (tmp_path / "README").write_text("hello")
    (tmp_path / f"{TOPIC}.link").symlink_to("/etc/passwd")
    membership = Membership(tmp_path, TOPIC)
    assert membership.exchange(OWN).others == ()
    assert not strange.exists()  # nobody holds its lock
    membership.leave()


def test_files_that_were_never_finished_are_removed_when_they_are_old(tmp_path):
    old, new = tmp_path / f".{TOPIC}.aa", tmp_path / f".{TOPIC}.bb"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    membership = Membership(tmp_path, TOPIC)
    membership.exchange(OWN)
    assert (old.exists(), new.exists()) == (False, True)
    membership.leave()


def test_what_the_dead_left_on_other_boards_goes_too_and_nothing_else(tmp_path, user):
    other = endpoint_hash("https://api.example.org", "")
    user(topic=other).exchange()
    dead = tmp_path / f"{other}.{'0' * 16}"
    dead.write_text("x")
    foreign = tmp_path / "README"
    foreign.write_text("hello")
    membership = Membership(tmp_path, TOPIC)
    membership.exchange(OWN)
    assert (dead.exists(), foreign.exists()) == (False, True)
    assert len([path for path in tmp_path.iterdir() if path.name.startswith(other)]) == 1
    membership.leave()


# --- the directory


def test_it_is_below_the_runtime_directory_of_the_user(tmp_path):
    tmp_path.chmod(0o700)
    found = board_dir(str(tmp_path))
    assert found.parent == tmp_path / "agentcompass"
    assert found.stat().st_mode & 0o777 == 0o700
    assert board_dir(str(tmp_path)) == found


@pytest.mark.parametrize("named", [None, "", "relative", "/does/not/exist"])
def test_without_one_it_is_a_private_one_among_temporary_files(tmp_path, named):
    found = board_dir(named, tmp_path / "agentcompass-0")
    assert found.parent == tmp_path / "agentcompass-0"
    assert found.parent.stat().st_mode & 0o777 == 0o700


def test_one_that_others_may_write_to_is_not_used(tmp_path):
    tmp_path.chmod(0o755)
    fallback = tmp_path / "fallback"
    assert board_dir(str(tmp_path), fallback).parent == fallback
    fallback.chmod(0o777)
    with pytest.raises(BoardError, match="others"):
        board_dir(None, fallback)


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(BoardError):
        board_dir(None, tmp_path / "link")


def test_a_file_in_its_place_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BoardError, match="file"):
        board_dir(None, tmp_path / "file")


def test_a_directory_that_is_gone_is_an_error(tmp_path):
    membership = Membership(tmp_path, TOPIC)
    (tmp_path / f".{membership._name}").unlink()
    with pytest.raises(BoardError, match="No such file"):
        membership.exchange(OWN)
    membership.leave()


def test_a_full_disk_is_an_error(tmp_path):
    with small_disk(tmp_path / "small", "size=64k,mode=700") as disk:
        with contextlib.suppress(OSError):
            (disk / "filler").write_bytes(b"x" * 100_000)
        with pytest.raises(BoardError, match="No space left"):
            membership = Membership(disk, TOPIC)
            membership.exchange(OWN)


def test_a_disk_without_room_for_another_file_is_an_error(tmp_path):
    few = small_disk(tmp_path / "small", "size=64k,mode=700,nr_inodes=1")
    with few as disk, pytest.raises(BoardError, match="No space left"):
        board_dir(str(disk))


def test_a_disk_that_becomes_full_does_not_end_what_is_there(tmp_path):
    with small_disk(tmp_path / "small", "size=64k,mode=700") as disk:
        one, other = Membership(disk, TOPIC), Membership(disk, TOPIC)
        one.exchange(OWN)
        other.exchange(OWN)
        with contextlib.suppress(OSError):
            (disk / "filler").write_bytes(b"x" * 100_000)
        one.exchange(Standing(cap=64, in_use=33))
        assert other.exchange(OWN).in_use == 33
        one.leave()
        other.leave()


def test_a_disk_that_cannot_be_written_is_an_error(tmp_path):
    fixed = small_disk(tmp_path / "small", "size=64k,mode=700,ro")
    with fixed as disk, pytest.raises(BoardError, match="Read-only"):
        board_dir(str(disk))
