import json
import os
import tracemalloc

import pytest

from agentcompass.store import steps
from agentcompass.store.steps import MAX_STEP_BYTES, read_steps
from support.descriptors import open_files


def written(tmp_path, *lines):
    path = tmp_path / "trajectory.jsonl"
    path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))  # fmt: skip
    return path


def read(path):
    return list(read_steps(path, "left-out"))


def test_steps_come_in_order_and_a_torn_last_one_is_dropped(tmp_path):
    path = written(tmp_path, {"n": 1}, {"n": 2}, b'{"n": 3')
    assert read(path) == [{"n": 1}, {"n": 2}]


def test_no_file_has_no_steps(tmp_path):
    assert read(tmp_path / "none") == []


def test_what_is_no_object_is_left_out(tmp_path):
    path = written(
        tmp_path, b"[1]\n", b"nonsense\n", b'{"n": NaN}\n', b"[" * 5000 + b"\n", {"n": 1}
    )
    left_out = [step for step in read(path) if step.get("type") == "left-out"]
    assert [step["bytes"] for step in left_out] == [4, 9, 11, 5001]


def test_a_line_of_40_megabytes_is_left_out_in_bounded_memory(tmp_path):
    path = tmp_path / "trajectory.jsonl"
    with path.open("wb") as file:
        file.write(b'{"n":1}\n{"output":"')
        for _ in range(40):
            file.write(b"x" * 1024 * 1024)
        file.write(b'"}\n{"n":2}\n')
    tracemalloc.start()
    try:
        first, big, last = read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (first, last) == ({"n": 1}, {"n": 2})
    assert big == {"type": "left-out", "bytes": 40 * 1024 * 1024 + 14}
    assert peak < 8 * MAX_STEP_BYTES


def test_a_torn_line_of_any_length_is_dropped(tmp_path):
    assert read(written(tmp_path, {"n": 1}, b"x" * (3 * MAX_STEP_BYTES))) == [{"n": 1}]


def test_the_longest_line_that_is_read_and_the_shortest_that_is_not(tmp_path):
    exact = b'{"a":"' + b"x" * (MAX_STEP_BYTES - 9) + b'"}\n'
    assert [len(line) for line in (exact,)] == [MAX_STEP_BYTES]
    assert "a" in read(written(tmp_path, exact))[0]
    longer = exact.replace(b"x", b"xx", 1)
    assert read(written(tmp_path, longer)) == [{"type": "left-out", "bytes": MAX_STEP_BYTES + 1}]


def test_one_step_stands_for_all_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "MAX_STEPS", 3)
    path = written(tmp_path, *[{"n": n} for n in range(5)])
    assert read(path)[3:] == [{"type": "left-out", "bytes": 16 + 2}]
    monkeypatch.setattr(steps, "MAX_STEPS", 5)
    assert len(read(path)) == 5


def test_what_is_beyond_the_bytes_that_are_read_is_one_step_too(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "MAX_BYTES", 12)
    path = written(tmp_path, *[{"n": n} for n in range(5)])
    assert read(path) == [{"n": 0}, {"n": 1}, {"type": "left-out", "bytes": 3 * 9}]


def test_a_step_without_fields_is_a_step(tmp_path):
    assert read(written(tmp_path, {}, {"n": 1})) == [{}, {"n": 1}]


def test_a_directory_in_its_place_has_no_steps_and_costs_no_descriptor(tmp_path):
    before = open_files()
    for _ in range(5):
        assert read(tmp_path) == []
    assert open_files() <= before


def test_a_pipe_or_a_link_in_its_place_is_not_followed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read(tmp_path / "pipe") == []
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="link"):
        read(tmp_path / "link")
