"""The components of a request, constructed; and an error that says what was being done when one of them failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import trio

from agentcompass.components import registry
from agentcompass.components.base import (
    GATEWAY_CONNECTIONS,
    Benchmark,
    Capabilities,
    Environment,
    Harness,
    Recipe,
    SandboxPlan,
    Task,
    Where,
)
from agentcompass.data import frozen
from agentcompass.errors import (
    AgentCompassError,
    ConfigurationError,
    EvaluationFailedError,
    SandboxError,
    describe,
)
from agentcompass.plan.fingerprint import Identity, identity
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import ComponentConfig, Request
from agentcompass.store.info import RunPlan

_log = logging.getLogger("agentcompass.engine")


@final
@frozen(kw_only=True, eq=False)
class Parts:
    """The components of a request, constructed."""

    benchmark: Benchmark[object]
    harness: Harness[object]
    environment: Environment[object]
    recipes: tuple[Recipe[object], ...]
    is_regrading: bool = False
    """No agent works: what an earlier run left is evaluated again."""

    def versions(self) -> dict[str, str]:
        """By role and id, what counts in the fingerprint."""
        named = {
            "benchmark": self.benchmark,
            "harness": self.harness,
            "environment": self.environment,
        }
        versions = {f"{role}:{part.id}": part.version for role, part in named.items()}
        return versions | {f"recipe:{recipe.id}": recipe.version for recipe in self.recipes}

    @property
    def serves_model(self) -> bool:
        """Whether programs in the agent's sandboxes call the model by themselves."""
        return self.harness.brings_client and not self.is_regrading

    @property
    def sandbox_descriptors(self) -> int:
        """Open files and sockets of this process that an open sandbox takes."""
        gateway = GATEWAY_CONNECTIONS + 1 if self.serves_model else 0
        return self.environment.descriptors + gateway

    async def check_environment(self) -> None:
        """Check that the environment can make sandboxes, and what the harness needs of them; see `Environment.preflight`."""
        await self.environment.preflight()
        if self.serves_model:
            await self.environment.check_listening()

    def agent_needs_sandbox(self, task: Task) -> bool:
        """Whether the agent works in a sandbox."""
        needs = self.harness.needs_sandbox or self.benchmark.needs_agent_sandbox(task)
        return needs and not self.is_regrading

    def where(self, task: Task) -> Where:
        """Where a task is evaluated."""
        needs = self.benchmark.needs_evaluation_sandbox(task)
        return self.benchmark.evaluates_in if needs else Where.NOWHERE

    def needs_sandbox(self, task: Task) -> bool:
        """Whether attempts at a task open any sandbox, and so need a place at the provider."""
        return self.agent_needs_sandbox(task) or self.where(task) is not Where.NOWHERE

    def identity(self, request: Request, scrubber: Scrubber) -> Identity:
        """Return everything that can change an answer, once the tasks are loaded."""
        return identity(
            request,
            dataset_version=self.benchmark.dataset_version(),
            component_versions=self.versions(),
            recipes=[recipe.id for recipe in self.recipes],
            scrubber=scrubber,
        )

    def run_plan(self, request: Request, tasks: Sequence[Task]) -> RunPlan:
        """Return what is to be done, as it is written down."""
        config = request.execution
        return RunPlan(
            tasks=tuple((task.id, task.category) for task in tasks),
            k=config.k,
            attempt_strategy=config.attempt_strategy,
            metrics=self.benchmark.metrics,
            min_coverage=config.min_coverage,
        )

    def sandbox_plan(self, request: Request, task: Task) -> SandboxPlan:
        """Return what a task needs of its sandboxes, as benchmark and recipes say.

        Raises:
            SandboxError: It needs what the environment has not (code `unsupported-sandbox`).
        """
        plan = self.benchmark.plan(task, SandboxPlan())
        for recipe in self.recipes:
            plan = recipe.adjust(request, task, plan)
        unmet = _unmet(plan, self.environment.capabilities) if self.needs_sandbox(task) else None
        if unmet is not None:
            what, kind = unmet
            raise SandboxError(
                f"task {task.id!r} needs {what}, and environment {self.environment.id!r} has no {kind}",
                code="unsupported-sandbox",
                retryable=False,
                hint="Choose another environment (`agentcompass list environments`).",
            )
        return plan


def _unmet(plan: SandboxPlan, can: Capabilities) -> tuple[str, str] | None:
    """The first thing that a plan asks for and an environment cannot give, and of what kind that is."""
    build = plan.build and plan.build.name
    asked = (
        (plan.image, can.images, f"image {plan.image!r}", "images"),
        (build, can.images, f"an image built from {build}", "images"),
        (plan.compose, can.images, f"the services of {plan.compose}", "containers"),
        (plan.user, can.users, f"user {plan.user!r}", "users of its own"),
    )
    return next(((what, kind) for given, able, what, kind in asked if given and not able), None)


def build(request: Request, recipe_dirs: Sequence[Path]) -> Parts:
    """Construct the components of a request.

    Args:
        request: Names them.
        recipe_dirs: Folders whose recipes may apply, beside the installed ones.

    Raises:
        ConfigurationError: As the component says.
        EvaluationFailedError: A constructor failed otherwise.
    """
    benchmark = _construct("benchmark", request.benchmark)
    _check_benchmark(benchmark)
    return Parts(
        benchmark=benchmark,
        harness=_construct("harness", request.harness),
        environment=_construct("environment", request.environment),
        recipes=tuple(_recipes(request, recipe_dirs)),
        is_regrading=request.regrade_of is not None,
    )


def _check_benchmark(benchmark: Benchmark[object]) -> None:
    """Check what a benchmark declares, which its constructor may have set: nothing could be scored later."""
    label = f"benchmark {benchmark.id!r}"
    if not isinstance(benchmark.evaluates_in, Where):
        raise ConfigurationError(
            f"{label}: evaluates_in is {benchmark.evaluates_in!r}, not a Where"
        )
    for metric in benchmark.metrics:
        ends = [end for end in (metric.worst, metric.best) if end is not None]
        name: object = metric.name
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"{label}: a metric's name is {metric.name!r}, not a text")
        if metric.kind not in ("binary", "scalar"):
            raise ConfigurationError(f"{label}: metric {metric.name!r} is of kind {metric.kind!r}")
        if metric.kind == "binary" and sorted(ends) != [0, 1]:
            raise ConfigurationError(f"{label}: binary metric {metric.name!r} goes from 0 to 1")
    if sum(metric.primary for metric in benchmark.metrics) != 1:
        raise ConfigurationError(f"{label}: exactly one metric must be primary")


def _construct(kind: registry.Kind, config: ComponentConfig) -> Any:
    cls = registry.load(kind, config.id)
    with explained(f"{kind} {config.id!r} could not be set up"):
        return cls(config.params)


def _recipes(request: Request, recipe_dirs: Sequence[Path]) -> Iterator[Recipe[object]]:
    """The recipes named; without names every one that matches, broken plug-ins left out with a note."""
    local = registry.load_recipe_dirs(recipe_dirs)
    wanted = request.execution.enabled_recipes
    for name in wanted:
        with explained(f"recipe {name!r} could not be set up"):
            yield _recipe(name, local)
    for name in () if wanted else sorted({*local, *registry.known("recipe")}):
        try:
            recipe = _recipe(name, local)
            if recipe.matches(request):
                yield recipe
        except (Exception, SystemExit) as error:  # noqa: BLE001  # nobody asked for this one: it breaks only itself
            _log.warning("recipe %r is left out: %s", name, describe(error))


def _recipe(name: str, local: Mapping[str, type[Recipe[Any]]]) -> Recipe[object]:
    cls = local.get(name) or registry.load("recipe", name)
    return cls(cls.Params())


@final
class explained:  # noqa: N801  # a context manager reads as a word
    """Turns an unexpected error of a component into one that says what was being done."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and not _speaks_for_itself(error):
            raise EvaluationFailedError(f"{self._what}: {describe(error)}") from error


def _speaks_for_itself(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # as a nursery of a component's wraps a cancellation
        return error.split((trio.Cancelled, KeyboardInterrupt))[1] is None
    return isinstance(error, AgentCompassError | trio.Cancelled | KeyboardInterrupt)
