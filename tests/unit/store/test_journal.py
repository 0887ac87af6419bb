"""The journal file itself."""

from agentcompass.store.journal import Journal


def test_lines_in_one_batch_with_the_close_are_durable_and_told_so(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(b"1\n")
    journal.close()
    journal.commit()
    assert (tmp_path / "attempts.jsonl").read_bytes() == b"1\n"
