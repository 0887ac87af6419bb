"""Configuration files: which there are, and what they say.

`$XDG_CONFIG_HOME/agentcompass/config.yaml` (else below `~/.config`), then the project's `agentcompass.yaml` (the nearest
one from the working directory up to the root of its repository), then each file named by the user, later ones winning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from agentcompass.components import registry
from agentcompass.data import frozen
from agentcompass.errors import did_you_mean
from agentcompass.options import AnyPath
from agentcompass.plan.merge import merge_all
from agentcompass.spec.codec import check_fields
from agentcompass.spec.document import check_component, check_execution, check_runtime
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from agentcompass.spec.tree import Written, kind_of, report, report_key, report_unknown_keys
from agentcompass.spec.written import Price

LAYER: Final = "config file"
PROJECT_FILE: Final = "agentcompass.yaml"

COMPONENT_KINDS: Final[Mapping[str, registry.Kind]] = {
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
}
"""Sections of components by id, and the kind of each."""
SECTIONS: Final = (*COMPONENT_KINDS, "execution", "runtime", "prices")


@frozen(kw_only=True)
class ConfigFiles:
    """All configuration files, merged."""

    files: tuple[str, ...]
    """As they are called in messages, lowest first."""
    root: Written | None
    """The merged document; None if there is no file."""

    def section(self, name: str) -> Written | None:
        """Return a section, such as `execution`."""
        return self.root.get(name) if self.root else None

    def component(self, kind: str, name: str) -> Written | None:
        """Return what the files say about one component."""
        section = next(key for key, value in COMPONENT_KINDS.items() if value == kind)
        found = self.section(section)
        return found.get(name) if found else None


def load(
    named: AnyPath | Sequence[AnyPath] | None,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    references: References,
    problems: Problems,
) -> ConfigFiles:
    """Find, read and check all configuration files.

    Args:
        named: What the user names in addition; these must exist.
        cwd: Where the search for the project's file begins, and where relative paths start.
        environ: Tells the home directories.
        references: Follows `${NAME}` in values.
        problems: Gets everything that is wrong, in used and unused sections.
    """
    paths = [*_found(cwd, environ), *_named(named, cwd, problems)]
    if not paths:
        return ConfigFiles(files=(), root=None)
    from agentcompass.spec import yaml  # noqa: PLC0415  only where there is a file to read

    loaded = []
    names = [display_name(path, cwd) for path in paths]
    for path, name in zip(paths, names, strict=True):
        document = yaml.load_file(path, LAYER, problems, name=name)
        if document is not None:
            document = references.follow(document)
            _check(document, problems)
            loaded.append(document)
    return ConfigFiles(files=tuple(names), root=merge_all(loaded))


def display_name(path: Path, cwd: Path) -> str:
    """Return how a file is called in messages: relative to the working directory if it is below."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _found(cwd: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    user = _user_file(environ)
    if user is not None and user.exists():
        yield user
    project = _project_file(cwd)
    if project is not None:
        yield project


def _named(named: object, cwd: Path, problems: Problems) -> list[Path]:
    """What the user names, which may be anything."""
    if named is None:
        return []
    paths = []
    for path in named if isinstance(named, list | tuple) else [named]:
        if isinstance(path, str | PurePath):
            paths.append(cwd / path)
        else:
            sentence = f"must be a path or a list of paths, not {path!r:.60}"
            problems.add("argument config_path", "", sentence)
    return paths


def _user_file(environ: Mapping[str, str]) -> Path | None:
    base = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME", "")
    # the base directory specification: a relative path counts as not set
    if Path(base).is_absolute():
        return Path(base) / "agentcompass" / "config.yaml"
    return Path(home) / ".config" / "agentcompass" / "config.yaml" if home else None


def _project_file(cwd: Path) -> Path | None:
    """The nearest project file, not beyond the repository; without a repository, only that of `cwd`."""
    folders = [cwd, *cwd.parents]
    root = next((folder for folder in folders if (folder / ".git").exists()), cwd)
    for folder in folders[: folders.index(root) + 1]:
        if (folder / PROJECT_FILE).exists():
            return folder / PROJECT_FILE
    return None


def _check(root: Written, problems: Problems) -> None:
    report_unknown_keys(problems, root, SECTIONS)
    for key, section in root.items():
        if section.data is None or key not in SECTIONS:
            continue
        if not section.is_mapping:
            report(problems, section, f"must be a mapping, not {kind_of(section)}")
        elif key == "execution":
            sentence = "belongs to `runtime`: write `task_concurrency` there"
            check_execution(section, problems, elsewhere=sentence)
        elif key == "runtime":
            check_runtime(section, problems, in_config_file=True)
        elif key == "prices":
            for price in section.data.values():
                check_fields(price, Price, problems)
        else:
            _check_components(section, COMPONENT_KINDS[key], problems)


def _check_components(section: Written, kind: registry.Kind, problems: Problems) -> None:
    known = tuple(registry.known(kind))
    for name, component in section.items():
        if name not in known and ":" not in name:
            report_key(problems, component, f"unknown {kind} {name!r}{did_you_mean(name, known)}")
        check_component(component, problems)
        own_id = component.get("id")
        if own_id is not None:
            report_key(problems, own_id, "the id is the key above it")
