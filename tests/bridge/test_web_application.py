"""A Starlette application under uvicorn that launches evaluations: clients that leave, and a server that ends."""

import http.client
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import attrs
import pytest

from support.scripts import ENVIRONMENT
from support.workload import Workload, await_no_survivors, survivors

TESTS = Path(__file__).parents[1]
ROUTES = ("/wait", "/stream")
COMMANDS = 4
SCORES = {"commands": 0.75, "functions": 1.0}


@attrs.define
class Client(Workload):
    """Asks for a launch of two requests: one is soon over, the other has commands that wait for the file `gate`.

    Commands leave children that ignore SIGTERM and bear the client's marker.
    """

    name: str = attrs.field(kw_only=True)
    connection: http.client.HTTPConnection = attrs.field(kw_only=True)

    def __attrs_post_init__(self):
        stubborn = f"trap '' TERM; (setsid sleep 9{self.marker} &) ; sleep 9{self.marker} &"
        with self.tasks.open("w") as file:
            for number in range(COMMANDS):
                waits = f"while [ ! -e {self.gate} ]; do sleep 0.05; done" if number else "true"
                command = f"{stubborn} {waits}; exit {int(number == 1)}"
                task = {"id": str(number), "prompt": "x", "command": command, "solution": "y"}
                file.write(json.dumps(task) + "\n")

    @property
    def tasks(self):
        return self.folder / f"{self.name}.jsonl"

    @property
    def gate(self):
        return self.folder / f"{self.name}.open"

    def ask(self, route):
        """Send the request, without waiting for an answer."""
        shared = {
            "harness": {"id": "oracle"},
            "model": {"id": "none"},
            "environment": {"id": "host_process", "root": str(self.folder / "sandboxes")},
        }
        jsonl, humaneval = {"id": "jsonl", "path": str(self.tasks)}, {"id": "humaneval", "limit": 1}
        asked = {
            "name": self.name,
            "requests": [
                {"name": "commands", "benchmark": jsonl, **shared},
                {"name": "functions", "benchmark": humaneval, **shared},
            ],
            "arguments": {
                "results_dir": str(self.folder / "results"),
                "cleanup_grace_seconds": 60,
                "task_concurrency": 3,
            },
        }
        self.connection.request("POST", route, json.dumps(asked))

    def answer(self):
        """Wait for the end, and return the status and the scores."""
        response = self.connection.getresponse()
        assert response.status == 200
        return json.loads(response.read().splitlines()[-1])

    def told(self):
        """What orchestration.json says."""
        file = self.folder / "results" / self.name / "orchestration.json"
        return json.loads(file.read_text()) if file.exists() else {"requests": {}}

    def statuses(self):
        return {name: entry["status"] for name, entry in self.told()["requests"].items()}

    def await_middle(self):
        """Wait until one request is over and the other has finished one of its attempts and is at work on the rest."""
        middle = {"commands": "running", "functions": "completed"}
        until(lambda: self.statuses() == middle and self.is_at_work())

    def is_at_work(self):
        """Whether all commands that wait do so, with their two children each."""
        return len(survivors(f"9{self.marker}")) >= 3 * (COMMANDS - 1) and self.graded() == 1

    def graded(self):
        """Attempts at commands that are finished."""
        (run_dir,) = (self.folder / "results" / "commands").glob("*/")
        return self.check_unique(run_dir)["graded"]

    def check_cancelled(self):
        """Everything is recorded, what was over is kept, and nothing else is left."""
        assert self.statuses() == {"commands": "cancelled", "functions": "completed"}
        assert (self.told()["status"], self.told()["ended_by"]) == ("cancelled", "caller")
        for run_dir in self.run_dirs():
            status = json.loads((run_dir / "run.json").read_text())["status"]
            assert status == self.statuses()[run_dir.parent.name]
        assert self.graded() == 1
        assert await_no_survivors(f"9{self.marker}") == []
        assert (self.sandboxes(), self.leases()) == ([], [])


class Service:
    """The service as a process of its own."""

    def __init__(self):
        paths = f"{ENVIRONMENT['PYTHONPATH']}:{TESTS}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.web_service"],
            env={**ENVIRONMENT, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.port = int(self.process.stdout.readline())
        self._connections = []

    def connect(self):
        self._connections.append(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))
        return self._connections[-1]

    def told(self):
        """What callbacks were told, now."""
        connection = self.connect()
        connection.request("GET", "/told")
        return json.loads(connection.getresponse().read())

    def close(self):
        for connection in self._connections:
            connection.close()
        self.process.kill()
        self.process.communicate()


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


@pytest.fixture
def service():
    made = Service()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def clients(service, tmp_path):
    """Two, each with a folder and a connection of its own."""
    made = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(Client(folder, name=name, connection=service.connect()))
    return made


def of(told, client):
    return [each["what"] for each in told if each["who"] == client.name]


@pytest.mark.parametrize("route", ROUTES)
def test_a_client_that_leaves_ends_its_own_launch_and_no_other(service, clients, route):
    leaving, staying = clients
    for client in clients:
        client.ask(route)
    for client in clients:
        client.await_middle()
    leaving.connection.close()
    until(lambda: "over" in of(service.told(), leaving))
    leaving.check_cancelled()
    assert staying.is_at_work()
    staying.gate.touch()
    assert staying.answer() == {"status": "completed", "scores": SCORES}
    assert await_no_survivors(f"9{staying.marker}") == []
    assert (staying.sandboxes(), staying.leases()) == ([], [])


def test_callbacks_come_in_the_thread_of_the_application_for_whom_they_are(service, clients):
    for client, route in zip(clients, ROUTES, strict=True):
        client.gate.touch()
        client.ask(route)
    for client in clients:
        assert client.answer() == {"status": "completed", "scores": SCORES}
    told = service.told()
    assert {each["is_here"] for each in told} == {True}
    assert {each["who"] for each in told} == {client.name for client in clients}
    for client in clients:
        what = of(told, client)
        assert what.count("attempt_finished") == COMMANDS + 1
        assert {"commands is completed", "functions is completed"} <= set(what)
        assert what[-1] == "over"


def test_a_server_that_is_told_to_end_ends_the_launches_first(service, clients):
    for client, route in zip(clients, ROUTES, strict=True):
        client.ask(route)
    for client in clients:
        client.await_middle()
    service.process.send_signal(signal.SIGTERM)
    stdout, stderr = service.process.communicate(timeout=100)
    told = json.loads(stdout)  # the last word of the application, when its server has stopped
    for client in clients:
        what = of(told, client)
        assert what[-2:] == ["commands is cancelled", "over"], stderr
        client.check_cancelled()
    assert service.process.returncode in (-signal.SIGTERM, 0)
    assert "was destroyed" not in stderr
