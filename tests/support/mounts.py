"""Small file systems, for what happens when they are full."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(directory, options):
    """A new file system in memory, mounted on a directory that is made; skips the test where that is not allowed."""
    directory.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", directory]
    if subprocess.run(mount, check=False, capture_output=True, timeout=20).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True, timeout=20)
