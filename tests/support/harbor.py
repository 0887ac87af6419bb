"""Task directories in the Harbor format, made for a test."""

from __future__ import annotations

import json
from pathlib import Path

from support.commandline import Program
from support.docker import engine_host

CHECKS_ANSWER = """\
#!/bin/bash
if [ "$(cat /app/answer 2>/dev/null)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
"""A `test.sh` that looks for the answer of a trivial task."""
SOLVES = "#!/bin/bash\necho 42 > /app/answer\n"
TOML = '[environment]\ndocker_image = "image"\n'


def harbor_task(
    folder: Path,
    name: str,
    *,
    toml: str = TOML,
    test: str | None = CHECKS_ANSWER,
    solve: str | None = SOLVES,
    instruction: str | None = "Write 42 to /app/answer.",
    files: dict[str, str] | None = None,
) -> Path:
    """Make a task; None leaves a file out.

    Args:
        folder: Of all tasks.
        name: Of the task.
        toml: `task.toml`.
        test: `tests/test.sh`.
        solve: `solution/solve.sh`.
        instruction: `instruction.md`.
        files: Others, by path.
    """
    parts = {
        "task.toml": toml,
        "instruction.md": instruction,
        "tests/test.sh": test,
        "solution/solve.sh": solve,
        **(files or {}),
    }
    for path, text in parts.items():
        if text is not None:
            target = folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return folder / name


def run_tasks(
    folder: Path, benchmark: str, harness: str, params: dict, **env: object
) -> dict[str, list[dict]]:
    """Run the program in containers without a network; return the records of each task, in order.

    Args:
        folder: Where results go.
        benchmark: Its id.
        harness: Its id; none that needs a model.
        params: The benchmark's.
        env: Parameters of the environment.
    """
    child = Program(folder).start(
        "run", benchmark, harness, "none", "--env", "docker",
        "--benchmark-params", json.dumps(params),
        "--env-params", json.dumps({"host": engine_host(), "network": "none", **env}),
        "--task-concurrency", "4", "--min-coverage", "0", "--progress", "none", "--results-dir", "results",
        "--execution-params", json.dumps({"retry_min_delay_seconds": 0.1, "retry_max_delay_seconds": 0.1}),
    )  # fmt: skip
    said, errors = child.communicate(timeout=600)
    assert child.returncode == 0, said + errors
    found: dict[str, list[dict]] = {}
    journal = max(folder.glob("results/*/*/attempts.jsonl"), key=lambda path: path.stat().st_mtime)
    for line in journal.read_bytes().splitlines():
        record = json.loads(line)
        found.setdefault(record["task_id"], []).append(record)
    return found
