import os
import subprocess

import pytest


@pytest.fixture
def tiny_file_system(tmp_path):
    """A file system of 64 KiB that really fills up."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if subprocess.run(command, check=False, capture_output=True, timeout=20).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True, timeout=20)
