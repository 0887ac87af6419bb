"""The execution section of a request: how attempts are made, retried and limited."""

from __future__ import annotations

import re
from collections.abc import Container

from agentcompass.components import registry
from agentcompass.plan.components import check_analysis, load_class
from agentcompass.spec.codec import structure_settings
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from agentcompass.spec.resolved import ExecutionConfig
from agentcompass.spec.tree import Written, at, report


def resolve_execution(
    section: Written | None,
    *,
    own_recipes: Container[str],
    references: References,
    problems: Problems,
) -> ExecutionConfig:
    """Resolve the merged section, and check what types cannot say.

    Args:
        section: None if nobody wrote one.
        own_recipes: Ids of the recipes of the run's own folders.
        references: Gets the secrets of the analyzers.
        problems: Gets what is wrong.
    """
    if section is None or section.data is None:
        return ExecutionConfig()
    config = structure_settings(section, ExecutionConfig, problems)
    _check_patterns(config, section, problems)
    _check_recipes(config, section, own_recipes, problems)
    if config.retry_min_delay_seconds > config.retry_max_delay_seconds:
        key = "retry_min_delay_seconds"
        if section.get(key) is None:
            key = "retry_max_delay_seconds"
        sentence = (
            f"the shortest retry delay, {config.retry_min_delay_seconds:g} seconds, is longer "
            f"than the longest, {config.retry_max_delay_seconds:g}"
        )
        report(problems, section, sentence, key)
    check_analysis(config.analysis_params, section.get("analysis_params"), references, problems)
    return config


def _check_patterns(config: ExecutionConfig, section: Written, problems: Problems) -> None:
    for index, pattern in enumerate(config.retry_pattern_list):
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as exc:
            sentence = f"is no regular expression: {exc}"
            report(problems, section, sentence, "retry_pattern_list", index)


def _check_recipes(
    config: ExecutionConfig, section: Written, own: Container[str], problems: Problems
) -> None:
    for index, name in enumerate(config.enabled_recipes):
        if name not in own:
            node, _ = at(section, ("enabled_recipes", index))
            kind: registry.Kind = "recipe"
            load_class(kind, name, node, problems)
