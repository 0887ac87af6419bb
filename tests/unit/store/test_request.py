import json

import pytest

from agentcompass.store.request import finish_command, public_url
from support.storage import run_info


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, None),
        ("https://h/v1", "https://h/v1"),
        ("https://user:pw@h:8080/v1?x=a@b", "https://h:8080/v1?x=a@b"),
        ("https://user:p@w@h/v1", "https://h/v1"),
        ("http://[bad@", "http://[bad@"),
    ],
)
def test_a_stored_url_has_no_credentials(url, expected):
    assert public_url(url) == expected


def test_a_masked_key_is_not_repeated(tmp_path):
    request = {"model": {"id": "m", "api_key": "[secret]"}}
    command = finish_command(run_info(request=request), tmp_path / "ns/r1")
    assert "secret" not in command
    assert "--model-api-key" not in command


def test_a_run_name_moves_the_results_directory_up(tmp_path):
    command = finish_command(run_info(request={"run_name": "nightly"}), tmp_path / "nightly/ns/r1")
    assert f"--results-dir {tmp_path} --run-name nightly --reuse r1" in command


def test_time_limits_that_change_answers_are_repeated(tmp_path):
    execution = {
        "run_timeout_seconds": 60,
        "evaluate_timeout_seconds": None,
        "timeout_multiplier": 2.0,
    }
    command = finish_command(run_info(request={"execution": execution}), tmp_path / "ns/r1")
    given = json.dumps({"run_timeout_seconds": 60, "timeout_multiplier": 2.0})
    assert f"--execution-params '{given}'" in command
