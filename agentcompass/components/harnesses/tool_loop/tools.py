"""The tools of `tool_loop`: what the model is told about them, and what happens when it calls one.

Whatever a model writes in a call becomes a result that it can read; only a sandbox that fails is an error.
"""

from __future__ import annotations

import json
from typing import Final, final

from agentcompass.components.base import Session
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.components.messages import Tool, ToolCall
from agentcompass.records import JSON

SHORTEST_SECONDS: Final = 1.0
"""A command has at least this long, whatever the model asks for."""
MARKER_BYTES: Final = 64
"""Room for the words that say what was left out."""

_RUN: Final = """\
exec 2>&1
if command -v bash >/dev/null; then exec bash -c "$1"; else exec sh -c "$1"; fi"""
"""Both outputs as one, in the order in which they were written."""


@final
class BadArgumentsError(ValueError):
    """The arguments of a call cannot be used; the text is for the model."""


@final
class Toolbox:
    """The tools of one attempt.

    Args:
        session: Where commands run.
        command_timeout_seconds: The longest that a command may take.
        max_output_bytes: What the model sees of a command's output, head and tail together.
    """

    def __init__(
        self, session: Session, *, command_timeout_seconds: float, max_output_bytes: int
    ) -> None:
        self._session = session
        self._limit = command_timeout_seconds
        self._max_output_bytes = max_output_bytes
        self._uses = {"bash": self._bash, "submit": self._submit}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model is told."""
        return (
            Tool(
                name="bash",
                description=(
                    "Run a command line in the sandbox and read its exit code and output. Each call is a new shell in "
                    "the task's directory: files stay from call to call, variables and `cd` do not. A command gets no "
                    f"input. After `timeout` seconds, {self._limit:g} at most, it is ended with all that it started. "
                    f"Of an output over {self._max_output_bytes} bytes the middle is left out."
                ),
                parameters=_schema(
                    {
                        "command": {"type": "string", "description": "The command line."},
                        "timeout": {"type": "number", "description": "Seconds it may take."},
                    },
                    required=("command",),
                ),
            ),
            Tool(
                name="submit",
                description="Say that the task is done. Nothing can be done afterwards.",
                parameters=_schema(
                    {
                        "answer": {
                            "type": "string",
                            "description": "The whole answer, exactly as the task asks for it.",
                        }
                    },
                    required=("answer",),
                ),
            ),
        )

    async def use(self, call: ToolCall) -> ToolResult:
        """Do what a call asks for.

        Raises:
            SandboxError: The sandbox failed.
        """
        use = self._uses.get(call.name)
        if use is None:
            there_are = " and ".join(f"`{name}`" for name in self._uses)
            text = f"There is no tool {readable(call.name)!r:.100}; there are {there_are}."
            return ToolResult(text=text, error="unknown-tool")
        try:
            return await use(parsed(call.arguments))
        except (BadArgumentsError, RecursionError) as error:
            return ToolResult(text=f"Nothing was done: {error}.", error="bad-arguments")

    async def _bash(self, arguments: dict[str, JSON]) -> ToolResult:
        command = arguments.get("command")
        if not isinstance(command, str) or not command.strip():
            raise BadArgumentsError("`command` must be a text that is not empty")
        seconds = clamped_seconds(arguments.get("timeout"), self._limit)
        done = await self._session.exec(
            ["sh", "-c", _RUN, "sh", readable(command)],
            timeout=seconds,
            max_output=self._max_output_bytes - MARKER_BYTES,
        )
        output, was_cut = cut(done.stdout + done.stderr, self._max_output_bytes)
        how = f"exit code {done.returncode}"
        if done.timed_out:
            how = f"ended after {seconds:g} s, before it was done"
        return ToolResult(
            text=f"{how}\n{output or '(no output)'}",
            exit_code=done.returncode,
            timed_out=done.timed_out,
            truncated=done.truncated or was_cut,
        )

    async def _submit(self, arguments: dict[str, JSON]) -> ToolResult:
        answer = arguments.get("answer")
        if not isinstance(answer, str):
            # a number or an object is what the model means, without the quotes
            answer = "" if answer is None else json.dumps(answer, ensure_ascii=False)
        return ToolResult(text="submitted", submitted=answer)


def parsed(arguments: str) -> dict[str, JSON]:
    """Return the arguments of a call; none at all are an empty object.

    Raises:
        BadArgumentsError: They are no JSON object.
    """
    try:
        value = json.loads(arguments, parse_constant=_refused) if arguments.strip() else {}
    except RecursionError:
        raise BadArgumentsError("the arguments are nested too deeply") from None
    except ValueError as error:
        raise BadArgumentsError(f"the arguments are no valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadArgumentsError("the arguments must be a JSON object")
    return value


def _refused(constant: str) -> JSON:
    """NaN and its like, which Python reads, and servers that are sent the call back do not."""
    raise ValueError(f"{constant} is none of its values")


def clamped_seconds(asked: JSON, limit: float) -> float:
    """Return how long a command may take: what was asked for, but no longer than `limit`.

    What is no positive number (-1, infinity, a word, nothing) gives `limit`.
    """
    try:
        seconds = float("nan" if isinstance(asked, bool) else asked)
    except (TypeError, ValueError, OverflowError):
        return limit
    return min(max(seconds, SHORTEST_SECONDS), limit) if seconds > 0 else limit


def cut(text: str, max_bytes: int) -> tuple[str, bool]:
    """Return a text of at most `max_bytes` as UTF-8, without its middle if it is longer, and whether it was."""
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return text, False
    head = (max_bytes - MARKER_BYTES) // 2
    tail = max_bytes - MARKER_BYTES - head
    marker = f"\n[... {len(data) - head - tail} bytes left out ...]\n"
    ends = (part.decode(errors="ignore") for part in (data[:head], data[len(data) - tail :]))
    return marker.join(ends), True


def readable(text: str) -> str:
    """Return a text with lone surrogates, which neither a shell nor most endpoints take, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _schema(properties: dict[str, JSON], *, required: tuple[str, ...]) -> dict[str, JSON]:
    return {"type": "object", "properties": properties, "required": list(required)}
