"""What all requests of an orchestration share: directories, limits, logging."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from agentcompass.components import registry
from agentcompass.errors import UnknownComponentError
from agentcompass.plan.config_files import ConfigFiles
from agentcompass.plan.merge import merge_all
from agentcompass.spec.codec import structure_settings
from agentcompass.spec.problems import Problems
from agentcompass.spec.resolved import RuntimeConfig
from agentcompass.spec.tree import Written, mapping, report

_BY_ENVIRONMENT = ("provider_limits", "env_open_qps")


def merged_runtime(
    config_files: ConfigFiles, document: Written, arguments: Written | None
) -> Written | None:
    """Merge the `runtime` of config files, orchestration and arguments."""
    concurrency = document.get("task_concurrency")
    if concurrency is not None:
        concurrency = mapping(document.origin, {"task_concurrency": concurrency})
    layers = [
        config_files.section("runtime"),
        document.get("runtime"),
        concurrency,
        arguments.get("runtime") if arguments else None,
    ]
    return merge_all(layers)


def resolve_runtime(
    section: Written | None,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    problems: Problems,
) -> RuntimeConfig:
    """Resolve the merged section; paths become absolute, from the working directory."""
    if section is None or section.data is None:
        config = RuntimeConfig()
    else:
        config = structure_settings(section, RuntimeConfig, problems)

    def absolute(path: Path) -> Path:
        home = environ.get("HOME")
        if home and path.parts[:1] == ("~",):
            path = Path(home, *path.parts[1:])
        return cwd / path

    return attrs.evolve(
        config,
        results_dir=absolute(config.results_dir),
        data_dir=absolute(config.data_dir),
        record=absolute(config.record) if config.record else None,
        log_file=absolute(config.log_file) if config.log_file else None,
        recipe_dirs=tuple(absolute(path) for path in config.recipe_dirs),
    )


def check_environments(
    config: RuntimeConfig, section: Written | None, used: set[str], problems: Problems
) -> None:
    """Add a problem for each limit of an environment that does not exist; import paths count only if `used`."""
    names = set(config.provider_limits) | set(config.env_open_qps)
    if section is None or names <= used:
        return
    known = {*registry.known("environment"), *used}
    for key in _BY_ENVIRONMENT:
        for name in getattr(config, key):
            if name not in known:
                error = UnknownComponentError("environment", name, known)
                report(problems, section, str(error), key, name)
