"""What a run has loaded and done when its first request leaves: no more than it needs, which is what makes it start soon.

`just bench startup` measures the time. A machine's speed must not fail a test, so these hold what the time comes from.
"""

import json
import socket
import subprocess
import sys

import pytest

from support.scripts import ENVIRONMENT

REPORT = """
import gc, json, os, sys
import trio
from agentcompass.cli.entry import main

async def first(self, data):
    from agentcompass.net.lanes import ssl_context
    from agentcompass.spec.docs import field_docs
    said = {
        "modules": sorted(sys.modules),
        "tls": ssl_context.cache_info().currsize,
        "docs": field_docs.cache_info().currsize,
        "full_passes": gc.get_stats()[2]["collections"] - passes,
    }
    print(json.dumps(said), flush=True)
    os._exit(0)

trio.SocketStream.send_all = first
passes = gc.get_stats()[2]["collections"]
main()
"""
NOT_NEEDED = {
    "agentcompass.api.entry_points": "the entry points for programs, with their signatures and docstrings",
    "agentcompass.components.models.local": "models served by this package",
    "asyncio": "",
    "click": "httpx's command line",
    "docker": "",
    "encodings.idna": "the host's name is in ASCII",
    "pygments": "",
    "rich": "nothing is shown live",
    "ruamel.yaml": "there is no configuration file",
    "statistics": "",
    "trio_asyncio": "",
    "uuid": "",
}


@pytest.fixture(scope="module")
def first_request(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first_request")
    (folder / "tasks.jsonl").write_text('{"id": "a", "prompt": "x", "answer": 42}\n')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        params = json.dumps({"path": "tasks.jsonl"})
        arguments = ["run", "jsonl", "openai_chat", "m", "--benchmark-params", params]
        child = subprocess.run(
            [sys.executable, "-c", REPORT, *arguments, "--model-base-url", url],
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def test_nothing_is_loaded_that_the_run_has_no_use_for(first_request):
    assert set(first_request["modules"]) & set(NOT_NEEDED) == set()


def test_plain_http_makes_no_tls_context(first_request):
    assert first_request["tls"] == 0


def test_no_source_is_read_for_descriptions_that_nobody_sees(first_request):
    assert first_request["docs"] == 0


def test_the_collector_has_not_walked_all_objects(first_request):
    assert first_request["full_passes"] == 0


def test_the_command_line_of_httpx_can_be_imported_all_the_same():
    code = (
        "import sys, agentcompass.net, httpx; assert 'click' not in sys.modules; import httpx._main"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
