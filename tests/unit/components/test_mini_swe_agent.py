import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(300)
@pytest.mark.docker
def test_the_real_agent_works_with_our_model_in_our_sandboxes():
    # in a process of its own: the package loads pydantic, and where that is loaded cyclopts checks the converted values of
    # a command line against the types that it converted them from
    checks = Path(__file__).with_name("mini_swe_agent.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--timeout=120", "-p", "no:cacheprovider", checks],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
