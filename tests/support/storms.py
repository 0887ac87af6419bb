"""An endpoint that allows so many calls a second, in real time, and evaluations that it refuses most calls of."""

import json
import math
import random
import threading
import time

from agentcompass.testing import chat, rate_limited

TASK = "What is {n} + {n}?"


def write_tasks(folder, count):
    """The tasks of `evaluate`."""
    with (folder / "tasks.jsonl").open("w") as file:
        for n in range(count):
            file.write(
                json.dumps({"id": f"q{n}", "prompt": TASK.format(n=n), "answer": str(2 * n)}) + "\n"
            )


def solve(seen):
    """Behaviour: answers what was asked, rightly."""
    number = int(seen.json["messages"][-1]["content"].split()[2])
    return chat(f"It is {2 * number}.")


class Allowance:
    """Behaviour: a token bucket before another behaviour.

    Args:
        behaviour: Answers what is allowed.
        per_second: Calls.
        burst: What the bucket holds.
        seconds: How long an answer takes, on average.
        hint: What a refusal says: `exact` (in milliseconds), `seconds` (whole ones, as most do), `none`.
    """

    def __init__(self, behaviour, *, per_second, burst, seconds, hint="seconds"):
        self._behaviour, self._rate, self._burst = behaviour, per_second, burst
        self._seconds, self._hint = seconds, hint
        self._lock, self._chance = threading.Lock(), random.Random(1)
        self._level, self._at = float(burst), time.monotonic()
        self.taken = self.refused = 0
        self.first_at = math.inf
        self.last_at = -math.inf
        """When the last answer will have gone out."""

    def __call__(self, seen):
        with self._lock:
            now = time.monotonic()
            self._level = min(self._burst, self._level + (now - self._at) * self._rate)
            self._at, self.first_at = now, min(self.first_at, now)
            if self._level < 1:
                self.refused += 1
                return self._refusal((1 - self._level) / self._rate)
            self._level -= 1
            self.taken += 1
            delay = self._seconds * self._chance.uniform(0.5, 1.5)
            self.last_at = max(self.last_at, now + delay)
        return self._behaviour(seen).but(delay_seconds=delay)

    def _refusal(self, seconds):
        if self._hint == "none":
            return rate_limited(None)
        refusal = rate_limited(str(math.ceil(seconds)))
        if self._hint == "seconds":
            return refusal
        return refusal.but(headers={**refusal.headers, "retry-after-ms": f"{1000 * seconds:.0f}"})

    @property
    def elapsed_seconds(self):
        """From the first request to the end of the last answer."""
        return self.last_at - self.first_at


def arguments(url, *options, concurrency=48, **model_params):
    """The command line of an evaluation of the tasks in the present folder."""
    return [
        "run", "jsonl", "openai_chat", "m",
        "--benchmark-params", json.dumps({"path": "tasks.jsonl", "scorer": "numeric"}),
        "--model-base-url", url, "--model-api-key", "k-1234567890", "--model-params", json.dumps(model_params),
        "--task-concurrency", str(concurrency), "--max-retries", "0", "--format", "json", "--progress", "none", *options,
    ]  # fmt: skip
