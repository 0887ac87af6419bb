"""SWE-bench Verified with `mini_swe_agent` in Docker, called as the documentation says: a real instance, solved by real edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass import run_evaluation
from agentcompass.testing import FakeEndpoint, chat
from support import swebench
from support.docker import engine_host
from support.swebench import SYMPY

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

FILE = "sympy/printing/conventions.py"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"


@pytest.fixture(scope="module")
def row():
    return swebench.real_row(SYMPY)


def commands(row):
    """What an agent does that knows the solution: it looks, edits, and submits its own diff."""
    return [
        f"ls && grep -n _name_with_digits_p {FILE}",
        f"cat > /tmp/p.diff <<'EOF'\n{row['patch']}\nEOF\ngit apply /tmp/p.diff && git status --short",
        f"git diff -- {FILE} > patch.txt && cat patch.txt",
        SUBMIT,
    ]


@pytest.mark.parametrize("knows", [True, False])
def test_the_call_of_the_documentation_runs_and_judges(tmp_path, row, monkeypatch, knows):
    monkeypatch.setenv("DOCKER_HOST", engine_host())
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    turns = commands(row) if knows else ["touch patch.txt", SUBMIT]

    def react(seen):
        turn = sum(message["role"] == "assistant" for message in seen.json["messages"])
        return chat(None, tool_calls=[("bash", json.dumps({"command": turns[turn]}))])

    with FakeEndpoint(react) as endpoint:
        result = run_evaluation(
            benchmark="swebench_verified",
            harness="mini_swe_agent",
            model="scripted",
            environment="docker",
            benchmark_params={
                "sample_ids": [row["instance_id"]],
                "dataset_path": str(tmp_path / "rows.jsonl"),
            },
            model_base_url=endpoint.base_url,
            model_api_key="key-of-the-test",
            model_api_protocol="openai-chat",
            model_params={"temperature": 0},
            task_concurrency=1,
            results_dir=tmp_path / "results",
            progress="none",
        )
        first = endpoint.requests[0].json
    assert len(endpoint.requests) == len(turns)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["bash"]
    assert first["temperature"] == 0
    told = first["messages"][1]["content"]
    assert row["problem_statement"].strip()[:200] in told
    assert "<issue>" not in told.replace(row["problem_statement"], "")
    (line,) = Path(result["paths"]["attempts"]).read_text().splitlines()
    record = json.loads(line)
    expected = {"resolved": float(knows), "applied": float(knows), "submitted": float(knows)}
    assert {name: record["metrics"][name] for name in expected} == expected
    assert record["details"]["patch_from"] == ("answer" if knows else "repository")
    assert result["summary"]["score"] == float(knows)
