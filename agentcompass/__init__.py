"""Evaluate AI agents: how good is this model, in this harness, on this benchmark, in this environment?

The names below are the public API. Each is imported on first use, so that `import agentcompass` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = (
    False  # as type checkers understand it; importing typing would double the cost of this module
)
if TYPE_CHECKING:
    from agentcompass._version import __version__ as __version__
    from agentcompass.api.entry_points import async_launch as async_launch
    from agentcompass.api.entry_points import async_regrade as async_regrade
    from agentcompass.api.entry_points import async_run_evaluation as async_run_evaluation
    from agentcompass.api.entry_points import launch as launch
    from agentcompass.api.entry_points import regrade as regrade
    from agentcompass.api.entry_points import run_evaluation as run_evaluation
    from agentcompass.components.analysis import AnalyzerParams as AnalyzerParams
    from agentcompass.components.analysis import Finding as Finding
    from agentcompass.components.analysis import FinishedAttempt as FinishedAttempt
    from agentcompass.components.analysis import Summarizer as Summarizer
    from agentcompass.components.analysis import SummaryRow as SummaryRow
    from agentcompass.components.base import AgentOutcome as AgentOutcome
    from agentcompass.components.base import Analyzer as Analyzer
    from agentcompass.components.base import Benchmark as Benchmark
    from agentcompass.components.base import Capabilities as Capabilities
    from agentcompass.components.base import Emit as Emit
    from agentcompass.components.base import Environment as Environment
    from agentcompass.components.base import Evaluation as Evaluation
    from agentcompass.components.base import ExecResult as ExecResult
    from agentcompass.components.base import Harness as Harness
    from agentcompass.components.base import ImageBuild as ImageBuild
    from agentcompass.components.base import LoadContext as LoadContext
    from agentcompass.components.base import Model as Model
    from agentcompass.components.base import NoParams as NoParams
    from agentcompass.components.base import Process as Process
    from agentcompass.components.base import Recipe as Recipe
    from agentcompass.components.base import Resources as Resources
    from agentcompass.components.base import SandboxPlan as SandboxPlan
    from agentcompass.components.base import Session as Session
    from agentcompass.components.base import Task as Task
    from agentcompass.components.base import TaskInput as TaskInput
    from agentcompass.components.base import Where as Where
    from agentcompass.components.messages import Message as Message
    from agentcompass.components.messages import Reply as Reply
    from agentcompass.components.messages import Tool as Tool
    from agentcompass.components.messages import ToolCall as ToolCall
    from agentcompass.errors import AgentCompassError as AgentCompassError
    from agentcompass.errors import ConfigurationError as ConfigurationError
    from agentcompass.errors import EvaluationError as EvaluationError
    from agentcompass.errors import EvaluationFailedError as EvaluationFailedError
    from agentcompass.errors import EvaluationTimeoutError as EvaluationTimeoutError
    from agentcompass.errors import EvaluatorError as EvaluatorError
    from agentcompass.errors import InfraError as InfraError
    from agentcompass.errors import ModelError as ModelError
    from agentcompass.errors import NestedLoopError as NestedLoopError
    from agentcompass.errors import PreflightError as PreflightError
    from agentcompass.errors import SandboxError as SandboxError
    from agentcompass.errors import StoreError as StoreError
    from agentcompass.errors import UnknownComponentError as UnknownComponentError
    from agentcompass.records import ExecutionRecord as ExecutionRecord
    from agentcompass.records import Lease as Lease
    from agentcompass.records import Metric as Metric
    from agentcompass.records import OrchestrationResult as OrchestrationResult
    from agentcompass.records import RequestOutcome as RequestOutcome
    from agentcompass.records import Usage as Usage
    from agentcompass.secrets import Secret as Secret
    from agentcompass.spec.files import load_orchestration_spec as load_orchestration_spec
    from agentcompass.spec.resolved import Orchestration as Orchestration
    from agentcompass.spec.written import OrchestrationDefaults as OrchestrationDefaults
    from agentcompass.spec.written import OrchestrationSpec as OrchestrationSpec
    from agentcompass.spec.written import RunRequestSpec as RunRequestSpec

_ORIGINS: dict[str, str] = {
    "__version__": "_version",
    "AgentCompassError": "errors",
    "ConfigurationError": "errors",
    "EvaluationError": "errors",
    "EvaluationFailedError": "errors",
    "EvaluationTimeoutError": "errors",
    "EvaluatorError": "errors",
    "InfraError": "errors",
    "ModelError": "errors",
    "NestedLoopError": "errors",
    "PreflightError": "errors",
    "SandboxError": "errors",
    "StoreError": "errors",
    "UnknownComponentError": "errors",
    "async_launch": "api.entry_points",
    "async_run_evaluation": "api.entry_points",
    "async_regrade": "api.entry_points",
    "regrade": "api.entry_points",
    "launch": "api.entry_points",
    "run_evaluation": "api.entry_points",
    "load_orchestration_spec": "spec.files",
    "OrchestrationDefaults": "spec.written",
    "OrchestrationSpec": "spec.written",
    "RunRequestSpec": "spec.written",
    "Orchestration": "spec.resolved",
    "ExecutionRecord": "records",
    "Lease": "records",
    "Metric": "records",
    "OrchestrationResult": "records",
    "RequestOutcome": "records",
    "Usage": "records",
    "Secret": "secrets",
    "AnalyzerParams": "components.analysis",
    "Finding": "components.analysis",
    "FinishedAttempt": "components.analysis",
    "Summarizer": "components.analysis",
    "SummaryRow": "components.analysis",
    "Message": "components.messages",
    "Reply": "components.messages",
    "Tool": "components.messages",
    "ToolCall": "components.messages",
    "AgentOutcome": "components.base",
    "Analyzer": "components.base",
    "Benchmark": "components.base",
    "Capabilities": "components.base",
    "Emit": "components.base",
    "Environment": "components.base",
    "Evaluation": "components.base",
    "ExecResult": "components.base",
    "Harness": "components.base",
    "ImageBuild": "components.base",
    "LoadContext": "components.base",
    "Model": "components.base",
    "NoParams": "components.base",
    "Process": "components.base",
    "Recipe": "components.base",
    "Resources": "components.base",
    "SandboxPlan": "components.base",
    "Session": "components.base",
    "Task": "components.base",
    "TaskInput": "components.base",
    "Where": "components.base",
}

__all__ = sorted(_ORIGINS)  # noqa: PLE0605  # the table is the list; a test compares both


def __getattr__(name: str) -> object:
    try:
        module = _ORIGINS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    import importlib  # noqa: PLC0415  # only when a name is first used

    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
