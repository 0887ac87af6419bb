"""A real engine for the environment `docker`, found or started before any event loop runs."""

import pytest

from support.docker import engine_host, python_image


@pytest.fixture(scope="session")
def engine():
    """Its address; it has the image with Python."""
    python_image()
    return engine_host()
