"""What every test needs, and no more: fixtures live with the tests that use them, or in `support/`."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# how long an example takes says nothing where tests run side by side
settings.register_profile("default", deadline=None)
settings.load_profile("default")

SHARED_ENGINE = "AGENTCOMPASS_TEST_ENGINE"


def pytest_configure(config):
    """Name the directory of the Docker engine that all worker processes share, if one has to be started."""
    if SHARED_ENGINE not in os.environ:
        config.shared_engine = tempfile.mkdtemp(prefix="acd-", dir="/tmp")
        os.environ[SHARED_ENGINE] = config.shared_engine


def pytest_unconfigure(config):
    """Stop that engine."""
    if hasattr(config, "shared_engine"):
        from support.docker import stop_engine

        stop_engine(Path(config.shared_engine))
        del os.environ[SHARED_ENGINE]
