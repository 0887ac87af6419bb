"""A real model, without a key: the third command of the README, and how its server ends."""

import json
import re
import shlex
import signal
import time

import pytest

from support.commandline import ROOT, Program
from support.host import is_running
from support.local_model import servers_of

SMALL = json.dumps({"sample_ids": ["HumanEval/23"]})
SLOW = json.dumps({"temperature": 0, "max_tokens": 4000})


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program in a folder that keeps the weights from test to test."""
    return Program(tmp_path_factory.mktemp("local"))


def readme_command():
    """The arguments of the README's third command."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    words = shlex.split(blocks[2].replace("\\\n", " "))
    (start,) = [n for n, word in enumerate(words) if word.endswith("/agentcompass")]
    return words[start + 1 :]


def starts(ended):
    return ended.stderr.count("starting local model")


@pytest.mark.slow
def test_the_command_of_the_readme_gives_a_score_between_0_and_1_and_counts_tokens(program):
    arguments = readme_command()
    assert arguments[:4] == ["run", "humaneval", "openai_chat", "local/gemma-3-270m"]
    ended = program(*arguments, "--format", "json", "--progress", "plain")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    # it repeats a line here and does as it is told there; which tasks it solves may differ between processors
    assert 0 < result["summary"]["score"] < 1
    assert result["summary"]["coverage"] == 1.0
    usage = result["summary"]["usage"]
    assert usage["calls"] == 6
    assert usage["unmetered_calls"] == 0
    assert usage["input_tokens"] > 100
    assert 6 <= usage["output_tokens"] <= 6 * 140
    assert starts(ended) == 1

    # the port is another one each time, and nothing has changed by that
    again = program(*arguments, "--reuse", "--format", "json", "--progress", "plain")
    assert again.returncode == 0, again.stderr
    summary = json.loads(again.stdout)["summary"]
    assert (summary["reused"], summary["score"]) == (6, result["summary"]["score"])
    assert starts(again) == 0


@pytest.mark.slow
def test_requests_of_one_launch_share_a_server(program):
    spec = {
        "defaults": {
            "harness": {"id": "openai_chat"},
            "benchmark": {"id": "humaneval", "sample_ids": ["HumanEval/23"]},
        },
        "requests": [
            {"name": name, "model": {"id": "local/gemma-3-270m", "params": {"max_tokens": limit}}}
            for name, limit in (("a", 8), ("b", 9))
        ],
    }
    (program.folder / "both.json").write_text(json.dumps(spec))
    ended = program("launch", "both.json", "--progress", "plain")
    assert ended.returncode == 0, ended.stderr
    assert starts(ended) == 1


def running(program, *options):
    """The program with a call in flight, and the process of its server."""
    child = program.start(
        "run", "humaneval", "openai_chat", "local/gemma-3-270m", "--progress", "plain",
        "--benchmark-params", SMALL, "--model-params", SLOW, *options,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    servers = []
    while not servers and time.monotonic() < deadline:
        servers = servers_of(child.pid)
        time.sleep(0.01)
    return child, servers


def end_of(pids, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        left = [pid for pid in pids if is_running(pid)]
        if not left:
            return []
        time.sleep(0.02)
    return left


@pytest.mark.slow
@pytest.mark.parametrize("when", ["starting", "answering"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_server_ends_with_the_run(program, when, number):
    child, servers = running(program)
    assert len(servers) == 1
    if when == "answering":
        for line in child.stderr:
            if "results in" in line:
                break
    child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode == (130 if number == signal.SIGINT else -9)
    assert end_of(servers) == []
