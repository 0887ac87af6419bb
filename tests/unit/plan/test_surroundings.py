"""A working directory that is gone is told as such, before anything is looked for in it."""

import pytest

from agentcompass.errors import PreflightError
from agentcompass.plan.surroundings import working_directory


def test_relative_paths_start_at_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert working_directory() == tmp_path


def test_a_working_directory_that_was_removed_is_told(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(PreflightError, match="working directory cannot be used") as caught:
        working_directory()
    assert "Change to a directory that exists" in caught.value.hint
