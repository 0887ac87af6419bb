import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_what_we_send_and_read_agrees_with_the_official_client_packages():
    # in a process of its own: the packages load pydantic, and where that is loaded cyclopts checks the converted values of
    # a command line against the types that it converted them from
    checks = Path(__file__).with_name("official_types.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--timeout=300", "-p", "no:cacheprovider", checks],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
