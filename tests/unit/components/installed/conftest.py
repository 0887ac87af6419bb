"""A real Docker engine, found or started before any event loop runs."""

import pytest

from support.docker import busybox_image, engine_host


@pytest.fixture(scope="session")
def docker_engine():
    """Its address; it has the image with BusyBox."""
    busybox_image()
    return engine_host()
