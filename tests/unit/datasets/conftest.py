"""Servers that publish data, and getting it from them."""

import pytest

from agentcompass.datasets import git, obtain, web
from support.git_server import GitServer
from support.hub import Hub


@pytest.fixture(autouse=True)
def _quick_and_alone(monkeypatch, tmp_path):
    """Failures are tried again at once, and nothing of this machine's own settings counts."""
    monkeypatch.setattr(web, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(git, "BACKOFF_SECONDS", 0.01)
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_HUB_OFFLINE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")


@pytest.fixture
def hub(monkeypatch):
    with Hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        yield served


@pytest.fixture
def git_server(tmp_path):
    with GitServer(tmp_path / "served") as served:
        yield served


@pytest.fixture
def get(tmp_path):
    """Obtains a source into a data directory of the test's own; `get.told` are the lines for people."""
    told = []

    async def get(source, data_dir=tmp_path / "data", **options):
        return await obtain(source, data_dir, tell=told.append, **options)

    get.told = told
    return get
