"""What callers get is JSON through and through."""

import json

from agentcompass import run_evaluation


def test_a_result_equals_its_own_round_trip(tmp_path):
    tasks = [
        {"id": "a", "prompt": "?", "answer": "x", "category": "one"},
        {"id": "b", "prompt": "?", "answer": ["x", "y"]},
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    result = run_evaluation(
        benchmark="jsonl",
        harness="oracle",
        model="none",
        benchmark_params={"path": str(path), "artifacts": ["a"], "sample_ids": ["a", "b"]},
        environment_params={"inherit_env": ["PATH"]},
        retry_pattern_list=["a+"],
        analysis_params={"latency": {}},
        k=2,
        recipe_dirs=[],
        model_api_protocol=["openai-chat", "auto"],
        results_dir=tmp_path / "results",
        progress="none",
    )
    assert json.loads(json.dumps(result)) == result
    (run_file,) = (tmp_path / "results").rglob("run.json")
    assert json.loads(run_file.read_text())["request"] == result["metadata"]["request"]
