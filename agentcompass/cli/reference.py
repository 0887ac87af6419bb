"""What the code knows about itself, as Markdown tables: `cli.help` puts them into the documentation.

A description is the string under the field it belongs to, or the first paragraph of a class's docstring, and stands
nowhere else. A field without one is an error here, so that nothing is missing in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from agentcompass import errors
from agentcompass.cli.cells import Row, code, default, described, first_paragraph, table
from agentcompass.cli.reference_files import fields
from agentcompass.components import registry
from agentcompass.engine.control import EXIT_CODES
from agentcompass.options import LaunchOptions, RunOptions, options_of
from agentcompass.plan.explain import KeyDoc, docs_of
from agentcompass.spec.docs import field_docs
from agentcompass.spec.resolved import (
    CALL_SETTINGS,
    ExecutionConfig,
    ModelConfig,
    RuntimeConfig,
)
from agentcompass.spec.written import (
    MatrixSection,
    ModelSection,
    OrchestrationDefaults,
    OrchestrationSpec,
    OutputSection,
    Price,
    ReuseSection,
    RunRequestSpec,
)

SECTIONS: Final[Mapping[str, type]] = {
    "orchestration": OrchestrationSpec,
    "request": RunRequestSpec,
    "matrix": MatrixSection,
    "model": ModelSection,
    "model.params": ModelConfig,
    "execution": ExecutionConfig,
    "reuse": ReuseSection,
    "output": OutputSection,
    "runtime": RuntimeConfig,
    "prices": Price,
}
"""The sections that people write, those of components apart."""
_ENDINGS: Final = (
    errors.ConfigurationError,
    errors.PreflightError,
    errors.EvaluationFailedError,
    errors.StoreError,
    errors.EvaluationTimeoutError,
)
"""What the entry points raise, and the command line reports."""
_SIGNALS: Final[Mapping[str, tuple[str, str]]] = {
    "sigint": ("Ended by Ctrl-C (SIGINT), after the cleanup.", "`KeyboardInterrupt`"),
    "sigterm": ("Ended by SIGTERM, after the cleanup.", "`SystemExit(143)`"),
    "sighup": ("Ended by SIGHUP, the terminal was closed; after the cleanup.", "`SystemExit(129)`"),
}


def render(kind: str, about: str) -> str:
    """Return a table.

    Args:
        kind: One of `RENDERERS`.
        about: What it is about; which words there are, each function says.

    Raises:
        KeyError: There is no such thing, or a field of it is not described.
    """
    return RENDERERS[kind](about)


def arguments(_about: str) -> str:
    """Every argument of the Python functions, with its option and the key that both set."""
    of_run = {option.name: option for option in options_of(RunOptions)}
    of_launch = {option.name: option for option in options_of(LaunchOptions)}
    docs = {**field_docs(LaunchOptions), **field_docs(RunOptions)}
    rows = []
    for option in sorted({**of_run, **of_launch}.values(), key=lambda each: each.is_shared):
        takers = [w for w, of in (("run", of_run), ("launch", of_launch)) if option.name in of]
        sets = code(option.path) or docs[option.name]
        rows.append((code(option.name), code(option.flag), ", ".join(takers), sets))
    return table(("argument", "option", "of", "sets"), rows)


def keys(section: str) -> str:
    """The keys of one of `SECTIONS`."""
    docs = docs_of(section, SECTIONS[section])
    if section == "model.params":
        docs = tuple(doc for doc in docs if _name(doc) in CALL_SETTINGS)
    if section == "matrix":
        inherited = attrs.fields_dict(OrchestrationDefaults)
        docs = tuple(doc for doc in docs if _name(doc) not in inherited)
    flags = {code(_name(doc)): code(doc.flag) for doc in docs}
    if not any(flags.values()):
        return table(("key", "type", "default", "meaning"), _rows(docs))
    rows = [(name, flags[name], *cells) for name, *cells in _rows(docs)]
    return table(("key", "option", "type", "default", "meaning"), rows)


def params(about: str) -> str:
    """The parameters of a component (`benchmark jsonl`), or of all built-in ones of a kind (`analyzer`)."""
    word, *names = about.split()
    kind = _kind(word)
    names = names or list(registry.BUILTINS[kind])
    rows = {name: _rows(docs_of("", registry.load(kind, name).Params)) for name in names}
    head = ("parameter", "type", "default", "meaning")
    if len(names) == 1:
        return table(head, rows[names[0]])
    shared = [row for row in rows[names[0]] if all(row in others for others in rows.values())]
    own = [(code(name), *row) for name in names for row in rows[name] if row not in shared]
    return table((kind, *head), [*own, *(("all", *row) for row in shared)])


def components(kind: str) -> str:
    """The built-in components of a kind."""
    builtins = registry.BUILTINS[_kind(kind)]
    return table(
        (kind, "what it is"), [(code(name), of.description) for name, of in builtins.items()]
    )


def exceptions(_about: str) -> str:
    """Every exception of this package, each after those it derives from."""
    rows = []
    for cls in _derived_from(errors.AgentCompassError):
        bases = ", ".join(code(base.__name__) for base in cls.__bases__)
        rows.append((code(cls.__name__), bases, first_paragraph(cls)))
    return table(("exception", "is a", "when"), rows)


def exit_codes(_about: str) -> str:
    """The exit codes of `run` and `launch`, and what the Python functions raise instead."""
    told: dict[int, list[tuple[str, str]]] = {0: [("Every request completed.", "")]}
    for cls in _ENDINGS:
        told.setdefault(cls.exit_code, []).append((first_paragraph(cls), code(cls.__name__)))
    for reason, meaning in _SIGNALS.items():
        told.setdefault(EXIT_CODES[reason], []).append(meaning)
    rows = [
        (str(number), " ".join(when for when, _ in each), ", ".join(name for _, name in each))
        for number, each in sorted(told.items())
    ]
    return table(("code", "when", "in Python"), rows)


RENDERERS: Final[Mapping[str, Callable[[str], str]]] = {
    "arguments": arguments,
    "keys": keys,
    "params": params,
    "components": components,
    "fields": fields,
    "exceptions": exceptions,
    "exit-codes": exit_codes,
}


def _kind(word: str) -> registry.Kind:
    return {str(kind): kind for kind in registry.KINDS}[word]


def _rows(docs: Iterable[KeyDoc]) -> list[Row]:
    """Name, type, default and meaning of settings, those that must be given first."""
    return [
        (
            code(_name(doc)),
            _type(doc.type),
            default(doc),
            described(doc.key, doc.doc),
        )
        for doc in sorted(docs, key=lambda doc: not doc.is_required)
    ]


def _name(doc: KeyDoc) -> str:
    return doc.key.rpartition(".")[2]


def _type(text: str) -> str:
    """A type as who writes a file sees it: a section is a mapping, and null may stand everywhere."""
    names = "|".join(cls.__name__ for cls in (*SECTIONS.values(), OrchestrationDefaults))
    plainer = re.sub(rf"mapping of any value|\b({names})\b", "mapping", text)
    parts = dict.fromkeys(part for part in plainer.split(" or ") if part != "null")
    if "list of mapping" in parts:
        parts.pop("mapping", None)
    return " or ".join(parts)


def _derived_from(root: type[Exception]) -> list[type[Exception]]:
    below = [cls for cls in root.__subclasses__() if cls.__module__ == errors.__name__]
    return [root, *(each for cls in below for each in _derived_from(cls))]
