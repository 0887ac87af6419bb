"""Orchestration files as objects, for programs that change them before they launch them, and objects as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from agentcompass.errors import ConfigurationError
from agentcompass.spec.document import check_requests, check_shared
from agentcompass.spec.matrix import expand_matrix
from agentcompass.spec.problems import Problems
from agentcompass.spec.references import References
from agentcompass.spec.tree import Origin, Source, Written, from_python, plain
from agentcompass.spec.written import (
    MatrixSection,
    OrchestrationDefaults,
    OrchestrationSpec,
    RunRequestSpec,
)
from agentcompass.spec.yaml_writer import to_yaml

LAYER: Final = "orchestration"


def load_orchestration_spec(path: str | os.PathLike[str]) -> OrchestrationSpec:
    """Read an orchestration file, for `launch`, or to look at it or change it before.

    References such as `${NAME}` stay as they are written until it is launched. What is not changed keeps its place:
    errors of `launch` name its line in the file.

    Args:
        path: A file of YAML 1.2, or of JSON if it is called `.json`.

    Returns:
        The specification. Its sections are dicts; a key that the file does not have is None.

    Raises:
        ConfigurationError: The file cannot be read, or has keys that there are not, or values of a wrong type. Whether
            components of those names exist and take these fields is looked at when it is launched.
    """
    try:
        file = Path(path)
    except TypeError:
        raise ConfigurationError(f"a path is needed, not {path!r:.60}") from None
    problems = Problems()
    document = read_document(file, str(file), problems)
    _check(document, problems)
    problems.raise_if_any()
    return _spec(document)


def as_yaml(spec: OrchestrationSpec) -> str:
    """Return a specification as the text of a file, from which `load_orchestration_spec` gives an equal one.

    Objects of sections come back as dicts, tuples as lists, and secrets as the references by which they were given; a
    `Secret` that was given in clear is masked.

    Raises:
        ConfigurationError: It holds what no file can hold: foreign objects.
    """
    problems = Problems()
    tree = from_python(spec, Origin(layer=LAYER, where=OrchestrationSpec.__name__), problems)
    problems.raise_if_any()
    return to_yaml(tree)


def read_document(path: Path, name: str, problems: Problems) -> Written:
    """Read an orchestration file as a tree.

    Args:
        path: The file.
        name: What it is called in messages.
        problems: Gets what is wrong with it as a file of YAML or JSON.

    Raises:
        ConfigurationError: It cannot be read at all, so that nothing else can be said of it.
    """
    from agentcompass.spec import yaml  # noqa: PLC0415  only where there is a file to read

    document = yaml.load_file(path, LAYER, problems, name=name)
    if document is None:
        problems.raise_if_any()
    return document or Written(data={}, origin=Origin(layer=LAYER, where=name))


def _check(document: Written, problems: Problems) -> None:
    """Check what does not depend on anything outside the file: references without default may stand for anything."""
    followed = References({}).follow(document)
    expanded = expand_matrix(followed, problems, is_used=False)
    check_shared(expanded, problems, is_used=False)
    check_requests(expanded, problems, is_used=False)


def _spec(document: Written) -> OrchestrationSpec:
    fields = plain(document)
    for key, cls in (("defaults", OrchestrationDefaults), ("matrix", MatrixSection)):
        section = document.get(key)
        if section is not None and section.data is not None:
            fields[key] = _section(section, cls)
    requests = document.get("requests")
    items = (requests.data if requests else None) or ()
    fields["requests"] = tuple(_section(item, RunRequestSpec) for item in items)
    given = {key: value for key, value in fields.items() if value is not None}
    return OrchestrationSpec(**given, _source=Source(document))


def _section(node: Written, cls: type[Any]) -> Any:
    return cls(**plain(node), _source=Source(node))
