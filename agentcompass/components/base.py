"""The extension points: what a benchmark, a harness, an environment, a model client, a recipe, an analyzer owe the engine.

The engine knows components by this module alone. A component is constructed with its validated parameters,
once per request; its methods are called for many tasks at once, so state between tasks belongs in arguments
and results. A method may be `async` (on trio) or a plain function, which runs in a worker thread.

Failures: raise `SandboxError`, `ModelError`, `EvaluatorError` or any `InfraError` for what is not the agent's
fault; anything else that is raised ends the attempt as `infra` too, under the class's name. Nothing raised
here leaves its attempt.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from agentcompass.components.analysis import (
    AnalyzerParams,
    Counts,
    Finding,
    FinishedAttempt,
    Summarizer,
)
from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.errors import InfraError
from agentcompass.records import JSON, Lease, Metric, StoppedBy, Usage
from agentcompass.spec.resolved import ModelConfig, Request

KiB = 1024
MiB = 1024 * KiB
DEFAULT_MAX_OUTPUT = MiB
"""Bytes kept of each output stream of a command, head and tail together."""


@attrs.frozen(kw_only=True)
class NoParams:
    """Parameters of a component that has none."""


P = TypeVar("P")


class Component(abc.ABC, Generic[P]):
    """What all extension points share: an id, a line of description, and a class of parameters.

    `Params` is an attrs class (`@attrs.frozen(kw_only=True)`); its fields are the component's keys in files and in
    `--benchmark-params` etc., each documented by a string under it. A field with `metadata={"selection": True}`
    chooses tasks without changing any answer, and so does not count in the fingerprint.
    """

    id: ClassVar[str]
    description: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    """Raised whenever an answer or a score could change; part of the fingerprint."""
    Params: ClassVar[type] = NoParams

    def __init__(self, params: P) -> None:
        self.params = params


# --- tasks and what comes of them


@attrs.frozen(kw_only=True)
class Task:
    """One item of a benchmark. `data` is the benchmark's own and never recorded."""

    id: str
    """Unique within the benchmark; any printable text without `..` segments."""
    category: str | None = None
    metadata: Mapping[str, JSON] = attrs.field(factory=dict)
    data: Any = None
    run_timeout_seconds: float | None = None
    evaluate_timeout_seconds: float | None = None


@attrs.frozen(kw_only=True)
class Resources:
    """What a sandbox may use; None leaves it to the environment's default."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int | None = None
    gpus: int | None = None


@attrs.frozen(kw_only=True)
class SandboxPlan:
    """What a task needs of its sandbox; recipes may adjust it before the sandbox is opened."""

    image: str | None = None
    workdir: str | None = None
    """Where commands run by default; None: the environment's own choice."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    resources: Resources = attrs.field(factory=Resources)
    network: bool = True
    artifacts: tuple[str, ...] = ()
    """Paths (relative to the work directory) that go from the agent's sandbox to a fresh one for evaluation."""


@attrs.frozen(kw_only=True)
class TaskInput:
    """What the agent is told. A harness uses the form it can: messages, or a prompt to continue."""

    messages: tuple[Message, ...]
    """For instruct models and agents; the last one is the user's."""
    completion_prompt: str | None = None
    """For base models: the text to continue."""
    completion_stop: tuple[str, ...] = ()
    """Stop sequences that belong to `completion_prompt`."""
    solve: Callable[[], Awaitable[AgentOutcome]] | None = None
    """Applies the reference solution; given to harnesses with `uses_reference` only."""

    @property
    def prompt(self) -> str:
        """The text of the last message."""
        return self.messages[-1].text


@attrs.frozen(kw_only=True)
class AgentOutcome:
    """What an agent left: its final answer, and why it stopped if that was early.

    Files count where the benchmark looks at the sandbox; `answer` where it looks at text.
    """

    answer: str | None = None
    stopped_by: StoppedBy | None = None
    """None: it finished by itself."""
    is_completion: bool = False
    """The answer continues `TaskInput.completion_prompt` instead of answering the messages."""
    details: Mapping[str, JSON] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Evaluation:
    """A verdict: a finite value for each metric the benchmark declares (bool counts as 0 or 1)."""

    metrics: Mapping[str, float]
    details: Mapping[str, JSON] = attrs.field(factory=dict)


# --- sandboxes


@attrs.frozen(kw_only=True)
class ExecResult:
    """What a command did. Output is decoded once, as UTF-8 with replacement characters."""

    returncode: int
    """Exit code; 124 after a timeout, 128 + n when ended by signal n."""
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False
    """Output beyond `max_output` was dropped from the middle of a stream."""
    duration: float = 0.0
    """Seconds."""


class Process(Protocol):
    """An interactive program in a sandbox. Leaving its context kills its whole process tree."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input."""

    async def close_stdin(self) -> None:
        """Send end-of-file."""

    async def receive(self, max_bytes: int = 64 * KiB) -> bytes:
        """Return the next output (stdout and stderr as one with a tty); empty at its end."""

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal, if it has one."""

    async def wait(self) -> int:
        """Wait for its end; return the exit code as in `ExecResult`."""


class Session(abc.ABC):
    """An open sandbox, borrowed by harness and benchmark. Paths are the sandbox's; relative ones start at `workdir`."""

    workdir: str
    """Absolute path, in the sandbox, of the directory where commands run."""

    @abc.abstractmethod
    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        stdin: bytes | str | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run a command to its end.

        Args:
            command: A program with arguments, or a line for `sh -c`.
            cwd: Where; default `workdir`.
            env: Added to the sandbox's environment.
            user: As whom, if the environment can; default its own choice.
            timeout: Seconds; then the whole process tree is killed and the output so far returned (124, `timed_out`).
            stdin: What the command reads; nothing by default.
            max_output: Bytes kept of each stream, head and tail.

        Returns:
            How it ended. A command that cannot be started gives 126 or 127, as in a shell.

        Raises:
            SandboxError: The sandbox failed, not the command.
        """

    @abc.abstractmethod
    def process(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start an interactive program; use with `async with`."""

    @abc.abstractmethod
    async def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return a file's content, at most its first `max_bytes`; FileNotFoundError if there is none."""

    @abc.abstractmethod
    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its parent directories."""

    async def read_text(self, path: str, *, max_bytes: int | None = None) -> str:
        """Return a file's content as UTF-8 with replacement characters."""
        return (await self.read_bytes(path, max_bytes=max_bytes)).decode(errors="replace")

    async def write_text(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file as UTF-8, making its parent directories; lone surrogates become `?`."""
        await self.write_bytes(path, text.encode(errors="replace"), mode=mode)

    @abc.abstractmethod
    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or a directory of this machine into the sandbox."""

    @abc.abstractmethod
    async def download(self, source: str, target: Path, *, max_bytes: int | None = None) -> None:
        """Copy a file or a directory of the sandbox to this machine, never outside `target`.

        Raises:
            SandboxError: More than `max_bytes` in all (code `artifact-too-large`), or a path that would lead outside.
        """

    async def exists(self, path: str) -> bool:
        """Whether a path exists."""
        result = await self.exec(["test", "-e", path])
        return result.returncode == 0

    @abc.abstractmethod
    async def end_processes(self) -> int:
        """Kill whatever still runs in the sandbox, check that nothing is left, and return how many there were.

        Called between the agent's end and the evaluation.

        Raises:
            SandboxError: Something could not be ended.
        """

    def entry_hint(self) -> str:
        """How a person enters the sandbox, for `keep_environment`."""
        return self.workdir


@attrs.frozen(kw_only=True)
class Capabilities:
    """What an environment can do; checked before anything costs."""

    images: bool = False
    """It can start from a named image."""
    network_control: bool = False
    resource_limits: bool = False
    users: bool = False
    is_security_boundary: bool = False
    """Untrusted code cannot reach the host."""


class Environment(Component[P]):
    """A provider of sandboxes."""

    capabilities: Capabilities = Capabilities()
    """Given on the class, or set by the constructor where a parameter decides."""
    descriptors: int = 4
    """Open files and sockets of this process that an open sandbox takes while a command runs in it; likewise."""

    async def preflight(self) -> None:
        """Check that sandboxes can be made, before anything costs.

        Raises:
            PreflightError: Something is missing; the message says what to do.
        """

    def lease_details(self) -> Mapping[str, str]:
        """What `remove` will need in order to find a sandbox again, beside the lease's name."""
        return {}

    @abc.abstractmethod
    def open(self, plan: SandboxPlan, lease: Lease) -> AbstractAsyncContextManager[Session]:
        """Make the sandbox named `lease.name` and close it on exit; usually an `@asynccontextmanager`.

        The engine has written the lease before and shields nothing: an implementation whose provider goes on
        creating after a cancelled request awaits the answer under its own shield. Leaving the context stops every
        process and removes everything, unless `lease.keep`.

        Raises:
            SandboxError: It could not be made.
        """

    @abc.abstractmethod
    async def remove(self, lease: Lease) -> None:
        """Remove what a lease names, wherever it stands, and return only when it is confirmed gone.

        Idempotent. Used after a failed close, by the reaper and by `agentcompass env close`.
        """


# --- benchmarks


class Where(enum.Enum):
    """Where a benchmark evaluates."""

    NOWHERE = "none"
    """Without a sandbox."""
    REUSE = "reuse"
    """In the agent's sandbox, after every process of it has been ended."""
    FRESH = "fresh"
    """In a new sandbox that the agent never touched; only `SandboxPlan.artifacts` go there."""


@attrs.frozen(kw_only=True)
class LoadContext:
    """What a benchmark may use to load its tasks."""

    data_dir: Path
    """Downloads and caches go below it."""
    auto_install_dependencies: bool = False
    note: Callable[[str], None] = lambda _text: None
    """Tells people about progress or something odd."""


class Benchmark(Component[P]):
    """A set of tasks and the way to score them."""

    metrics: ClassVar[tuple[Metric, ...]]
    evaluates_in: Where = Where.NOWHERE
    """Given on the class, or set by the constructor where a parameter decides."""
    evaluate_timeout_seconds: ClassVar[float] = 1800.0
    extra: ClassVar[str | None] = None
    """The package extra that has its data or dependencies (`pip install 'agentcompass[EXTRA]'`)."""

    @abc.abstractmethod
    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Return the tasks, in order, already narrowed to what the parameters select.

        Raises:
            ConfigurationError: A parameter or the user's data is wrong, unknown ids of a selection included.
            PreflightError: The data is not there; the message says how to get it.
        """

    def dataset_version(self) -> str:
        """Identify the content of the data, after `load_tasks`: a revision or a hash; part of the fingerprint."""
        return ""

    def plan(self, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Adjust the sandbox for a task; `plan` is the default."""
        return plan

    def needs_agent_sandbox(self, task: Task) -> bool:
        """Whether the agent works in a sandbox even when its harness would not need one."""
        return self.evaluates_in is Where.REUSE

    def needs_evaluation_sandbox(self, task: Task) -> bool:
        """Whether this task is evaluated in the sandbox that `evaluates_in` names."""
        return self.evaluates_in is not Where.NOWHERE

    @abc.abstractmethod
    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Set the sandbox up and return what the agent is told. `session` is None where none is needed."""

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Apply the reference solution as an agent would; what the `oracle` harness does.

        Raises:
            InfraError: The task has no reference solution (code `no-reference-solution`, not retryable).
        """
        raise InfraError(
            f"task {task.id!r} has no reference solution",
            code="no-reference-solution",
            retryable=False,
        )

    @abc.abstractmethod
    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Judge what the agent left. An agent that did nothing scores its worst: that is a verdict, not a failure.

        Raises:
            EvaluatorError: There is no verdict.
        """


# --- models


class Model(Protocol):
    """A model endpoint as a harness sees it: retries, limits and metering are behind it.

    Every call that reaches the endpoint is metered, also when its answer cannot be used. After the agent's phase
    has ended, calls raise `ModelError` with code `model-revoked`.
    """

    id: str
    protocol: str

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask for the next message. `params` are added to, and win over, the user's model parameters.

        Raises:
            ModelError: After the retries; the code tells the cause (`rate-limited`, `server-error`, `connection-failed`,
                `stalled`, `bad-request`, `unauthorized`, `model-not-found`, `malformed-response`, `context-exceeded`, ...).
        """
        ...

    async def complete(
        self,
        prompt: str,
        *,
        stop: Sequence[str] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask a base model to continue a text (`openai-completions`); errors as for `chat`."""
        ...


@attrs.frozen(kw_only=True)
class ModelRetry:
    """A call is tried again: told to whoever watches the attempt."""

    code: str
    message: str
    wait_seconds: float
    try_number: int
    """Of the try that failed, from 1."""


class AttemptModel(Model, Protocol):
    """The model lent to one attempt."""

    @property
    def usage(self) -> Usage:
        """Sum over the calls so far."""
        ...

    @property
    def asked(self) -> int:
        """Calls that the harness made, whatever came of them."""
        ...

    @property
    def replies(self) -> int:
        """Calls that gave the harness a reply."""
        ...

    def revoke(self) -> None:
        """Refuse every further call and cancel those in flight."""


class ModelClient(Protocol):
    """One endpoint for one run: connections, limits and prices shared by its attempts."""

    async def ready(self, ctx: LoadContext) -> None:
        """Make sure that there is an endpoint, which for a local model means to start it. Before the first `lend`.

        Raises:
            PreflightError: What it needs is not there, or it does not come up.
        """
        ...

    def lend(self, on_retry: Callable[[ModelRetry], None]) -> AttemptModel:
        """Return a model for one attempt."""
        ...

    async def aclose(self) -> None:
        """Close all connections, and end what `ready` started; also under cancellation."""


class ModelOpener(Protocol):
    """How the engine makes a client: `components.models.open_client`, reached through the registry."""

    def __call__(
        self,
        config: ModelConfig,
        *,
        harness_protocols: Sequence[str],
        prices: Mapping[str, Mapping[str, float]],
    ) -> ModelClient:
        """Choose the protocol both sides support; ConfigurationError if there is none."""
        ...


# --- harnesses


Emit = Callable[[Mapping[str, JSON]], Awaitable[None]]
"""Appends one step to the attempt's trajectory, on disk, while it runs. A step is a JSON object with a `type`."""


class Harness(Component[P]):
    """The agent loop that attempts a task with a model."""

    needs_model: ClassVar[bool] = True
    """An attempt in which no model call was made is then `infra`, never a zero."""
    needs_sandbox: ClassVar[bool] = False
    uses_reference: ClassVar[bool] = False
    protocols: ClassVar[tuple[str, ...]] = ("openai-chat",)
    """Model protocols it can use, best first."""
    sends: ClassVar[tuple[str, ...]] = ()
    """Model parameters that it sets itself in every call (`tools`): a user's would have no effect, and are refused."""
    run_timeout_seconds: ClassVar[float] = 1800.0

    @abc.abstractmethod
    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Attempt the task.

        Args:
            task_input: What the agent is told.
            session: The agent's sandbox; None if neither harness nor benchmark needs one.
            model: The endpoint; every call raises if the request has none.
            emit: Where trajectory steps go.

        Returns:
            What the agent left. Running out of turns or context is an outcome with `stopped_by`, not an error;
            the run deadline is the engine's, which then grades what is there.

        Raises:
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed.
        """


# --- recipes and analyzers


class Recipe(Component[P]):
    """A named, tested adjustment for one combination of benchmark, harness, model and environment."""

    @abc.abstractmethod
    def matches(self, request: Request) -> bool:
        """Whether it applies to a request."""

    def adjust(self, request: Request, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Return the sandbox plan for a task as this combination needs it."""
        return plan


class Analyzer(Component[P]):
    """Looks at an attempt after it is durable; whatever it does, only its own findings suffer.

    Called in a worker thread, in the order in which attempts finish. Keep no state: an attempt may be looked at twice.
    """

    Params: ClassVar[type] = AnalyzerParams

    @abc.abstractmethod
    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return what is worth knowing; called for graded and infra executions alike.

        One that takes longer than the engine's limit is not asked again in this run.
        """

    def summarizer(self) -> Summarizer:
        """Return what sums up its findings over a run."""
        return Counts()
