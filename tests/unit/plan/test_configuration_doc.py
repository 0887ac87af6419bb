"""docs/configuration.md tells what is so."""

import re
from pathlib import Path

from agentcompass.plan import config_files
from agentcompass.plan.explain import config_values
from support.resolving import run

TEXT = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
(FILE,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_file_it_shows_is_read_and_does_what_it_says(tmp_path):
    (tmp_path / config_files.PROJECT_FILE).write_text(FILE)
    resolved = run(tmp_path, {"SCRATCH": "/scratch"})
    (request,) = resolved.requests
    assert request.benchmark.params.limit == 20
    assert request.harness.params.system_prompt == "Answer briefly."
    assert request.execution.max_retries == 2
    assert resolved.runtime.results_dir == Path("/scratch/results")
    assert resolved.runtime.task_concurrency == 16
    assert resolved.prices == {"my-model*": {"input": 0.5, "cached_input": 0.1, "output": 1.5}}


def test_it_shows_every_section(tmp_path):
    assert re.findall(r"^(\w+):", FILE, re.MULTILINE) == list(config_files.SECTIONS)
    (tmp_path / config_files.PROJECT_FILE).write_text(FILE)
    shown = {each.key: each.value for each in config_values(cwd=tmp_path, environ={})}
    assert shown["runtime.results_dir"] == "${SCRATCH:-.}/results"


def test_it_names_the_files_that_are_read(tmp_path):
    for name in ("agentcompass/config.yaml", config_files.PROJECT_FILE):
        assert name in TEXT
