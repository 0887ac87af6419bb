"""Ten real tasks of Terminal-Bench, each as it was published and in the Harbor format: solved by its own solution, and not
by doing nothing. Run by `just campaign`, with figures."""

from __future__ import annotations

import time

import pytest

from support import terminal_bench
from support.harbor import run_tasks

pytestmark = pytest.mark.docker
NAMES = (*terminal_bench.OFFLINE, *terminal_bench.MORE)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("benchmark", ["terminal_bench_core", "harbor"])
def test_ten_real_tasks(tmp_path, benchmark, capsys):
    terminal_bench.base_image()
    place = tmp_path / "tasks"
    if benchmark == "harbor":
        params = {"path": str(terminal_bench.converted(place, *NAMES))}
    else:
        params = {"dataset_path": str(terminal_bench.copied(place, *NAMES))}
    rewards = {}
    for harness in ("oracle", "nop"):
        began = time.monotonic()
        records = run_tasks(tmp_path, benchmark, harness, params)
        seconds = time.monotonic() - began
        rewards[harness] = {name: tries[-1]["metrics"] for name, tries in records.items()}
        with capsys.disabled():
            print(f"\n{benchmark}, {harness}: {len(records)} tasks in {seconds:.0f} s")
            for name, (record, *_) in sorted(records.items()):
                spent = record["phase_seconds"]
                figures = ", ".join(
                    f"{phase} {spent.get(phase, 0):.1f} s" for phase in ("run", "evaluate")
                )
                print(f"  {name:32} {record['metrics'] or record['failure']}  {figures}")
    for harness, reward in (("oracle", 1.0), ("nop", 0.0)):
        wanted = {"resolved": reward, "reward": reward}
        assert rewards[harness] == dict.fromkeys(NAMES, wanted)
