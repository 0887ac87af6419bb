"""The extension points: what a benchmark, a harness, an environment, a model client, a recipe, an analyzer owe the engine.

The engine knows components by this package alone. A component is constructed with its validated parameters,
once per request; its methods are called for many tasks at once, so state between tasks belongs in arguments
and results. A method may be `async` (on trio) or a plain function, which runs in a worker thread.

Failures: raise `SandboxError`, `ModelError`, `EvaluatorError` or any `InfraError` for what is not the agent's
fault; anything else that is raised ends the attempt as `infra` too, under the class's name. Nothing raised
here leaves its attempt.
"""

from __future__ import annotations

from agentcompass.components.base.analyzer import Analyzer
from agentcompass.components.base.benchmark import Benchmark, Where
from agentcompass.components.base.component import Component, NoParams, P
from agentcompass.components.base.environment import (
    Capabilities,
    Environment,
    ImageBuild,
    ImageSource,
    Resources,
    SandboxPlan,
)
from agentcompass.components.base.harness import Emit, Harness
from agentcompass.components.base.loading import LoadContext
from agentcompass.components.base.model import (
    GATEWAY_CONNECTIONS,
    Account,
    AttemptModel,
    Gateway,
    Model,
    ModelClient,
    ModelEndpoints,
    ModelOpener,
    ModelRecorder,
    ModelRetry,
    ServedCall,
)
from agentcompass.components.base.recipe import Recipe
from agentcompass.components.base.session import (
    DEFAULT_MAX_OUTPUT,
    ExecResult,
    Inlet,
    KiB,
    MiB,
    Process,
    Session,
)
from agentcompass.components.base.task import AgentOutcome, Evaluation, Task, TaskInput

__all__ = [
    "DEFAULT_MAX_OUTPUT",
    "GATEWAY_CONNECTIONS",
    "Account",
    "AgentOutcome",
    "Analyzer",
    "AttemptModel",
    "Benchmark",
    "Capabilities",
    "Component",
    "Emit",
    "Environment",
    "Evaluation",
    "ExecResult",
    "Gateway",
    "Harness",
    "ImageBuild",
    "ImageSource",
    "Inlet",
    "KiB",
    "LoadContext",
    "MiB",
    "Model",
    "ModelClient",
    "ModelEndpoints",
    "ModelOpener",
    "ModelRecorder",
    "ModelRetry",
    "NoParams",
    "P",
    "Process",
    "Recipe",
    "Resources",
    "SandboxPlan",
    "ServedCall",
    "Session",
    "Task",
    "TaskInput",
    "Where",
]
