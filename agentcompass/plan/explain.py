"""What `agentcompass config show`, `docs` and `explain` tell, as data.

Values here are those of the configuration files over the built-in defaults: what a request or an argument would say
on top belongs to that request.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import attrs

from agentcompass.components import registry
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, did_you_mean
from agentcompass.options import AnyPath, RunOptions, options_of
from agentcompass.plan import config_files
from agentcompass.plan.merge import history, leaves, source
from agentcompass.records import JSON
from agentcompass.secrets import Secret
from agentcompass.spec.codec import default_of, fields_of, without_nulls
from agentcompass.spec.docs import field_docs
from agentcompass.spec.dump import as_written
from agentcompass.spec.problems import Problems, join_path
from agentcompass.spec.ranges import Range
from agentcompass.spec.references import References
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig
from agentcompass.spec.tree import Written, plain
from agentcompass.spec.written import Price

BUILT_IN: Final = "built-in default"

_STATIC: Final[Mapping[str, type]] = {"execution": ExecutionConfig, "runtime": RuntimeConfig}


@frozen(kw_only=True)
class KeyDoc:
    """What a configuration key is for."""

    key: str
    """Dotted, as in a configuration file: `execution.k`, `benchmarks.humaneval.limit`."""
    type: str
    """As a person would say it: `integer, at least 1`."""
    default: JSON
    """The built-in one; None also where there is none."""
    is_required: bool
    """There is no default."""
    doc: str
    flag: str | None
    """The option of `agentcompass run` that sets it."""


@frozen(kw_only=True)
class Overridden:
    """A value that another one took the place of."""

    value: JSON
    origin: str


@frozen(kw_only=True)
class Explanation:
    """A configuration key's value and where it comes from."""

    key: str
    value: JSON
    """Secrets are references, or masked."""
    origin: str
    """Its layer, and file, line and column."""
    overrode: tuple[Overridden, ...]
    """What it took the place of, nearest first; the built-in default last."""
    doc: KeyDoc | None
    """None for a key of a free mapping, such as one environment's limit."""


def config_docs(*, components: bool = True) -> tuple[KeyDoc, ...]:
    """Describe every configuration key; with `components`, those of every component that can be loaded."""
    docs: list[KeyDoc] = []
    for section, cls in _STATIC.items():
        docs += docs_of(section, cls)
    docs += docs_of("prices.<model>", Price)
    for section, kind in config_files.COMPONENT_KINDS.items() if components else ():
        for name in registry.known(kind):
            try:
                docs += docs_of(join_path(section, name), registry.load(kind, name).Params)
            except (ConfigurationError, NameError):
                continue  # a broken plug-in has no keys; whoever uses it is told
    return tuple(docs)


def config_values(
    *,
    cwd: Path,
    environ: Mapping[str, str],
    config_path: AnyPath | Sequence[AnyPath] | None = None,
) -> tuple[Explanation, ...]:
    """Return every run-level setting, and every other one that a configuration file writes.

    Raises:
        ConfigurationError: A configuration file is wrong.
    """
    view = _View(cwd, environ, config_path)
    keys = [doc.key for doc in config_docs(components=False) if "<" not in doc.key]
    written = [path for path, _ in leaves(view.root)] if view.root else []
    beside = [path for path in written if not any(_is_inside(path, key) for key in keys)]
    return tuple(view.explain(key) for key in (*keys, *beside))


def explain(
    key: str,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    config_path: AnyPath | Sequence[AnyPath] | None = None,
) -> Explanation:
    """Explain one key, such as `execution.k` or `benchmarks.humaneval.limit`.

    Raises:
        ConfigurationError: There is no such key, or a configuration file is wrong.
    """
    return _View(cwd, environ, config_path).explain(key)


class _View:
    """The merged configuration files."""

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        config_path: AnyPath | Sequence[AnyPath] | None,
    ) -> None:
        problems = Problems()
        references = References(environ)
        loaded = config_files.load(
            config_path, cwd=cwd, environ=environ, references=references, problems=problems
        )
        problems.raise_if_any()
        self.root = loaded.root
        self._secrets = references.secrets

    def explain(self, key: str) -> Explanation:
        keys = tuple(_split(key))
        doc = _doc_for(keys)
        node = self._find(keys)
        if doc is None and node is None:
            raise _unknown(key, keys)
        default = [] if doc is None else [Overridden(value=doc.default, origin=BUILT_IN)]
        below = [] if node is None else [node, *history(node)]
        values = [*(self._shown(each) for each in below), *default]
        # an explicit null takes the value back to the built-in default, and says where
        value = values[0].value
        if node is not None and node.data is None and doc is not None:
            value = doc.default
        return Explanation(
            key=key, value=value, origin=values[0].origin, overrode=tuple(values[1:]), doc=doc
        )

    def _find(self, keys: tuple[str, ...]) -> Written | None:
        node = self.root if keys else None
        for key in keys:
            node = node.get(key) if node else None
        return node

    def _shown(self, node: Written) -> Overridden:
        value = as_written(plain(without_nulls(node)), node, self._secrets)
        return Overridden(value=value, origin=source(node.origin))


def _unknown(key: str, keys: tuple[str, ...]) -> ConfigurationError:
    section = keys[0] if keys else ""
    known = [each.key for each in config_docs(components=section not in _STATIC)]
    is_section = section in config_files.SECTIONS
    # a section that is none and a key that is none would find a neighbour that nobody meant
    rest = key.partition(".")[2]
    is_meant = is_section or any(each.partition(".")[2] == rest for each in known)
    found = did_you_mean(key, known) if is_meant else ""
    if not found and not is_section:
        nearest = did_you_mean(section, config_files.SECTIONS)
        found = f": there is no section {section!r}{nearest}"
    elif not found:
        found = ": `agentcompass config docs` describes every key"
    return ConfigurationError(f"unknown key {key!r}{found}")


def _split(key: str) -> Iterator[str]:
    """`a.b['c.d']` is a, b, c.d."""
    for word, quoted in re.findall(r"([^.\[\]]+)|\['([^']*)'\]", key):
        yield word or quoted


def _is_inside(path: str, key: str) -> bool:
    return path == key or path.startswith((f"{key}.", f"{key}["))


def _doc_for(keys: tuple[str, ...]) -> KeyDoc | None:
    cls: type | None = None
    if len(keys) == 2:
        cls = _STATIC.get(keys[0])
    elif len(keys) == 3 and keys[0] in config_files.COMPONENT_KINDS:
        cls = registry.load(config_files.COMPONENT_KINDS[keys[0]], keys[1]).Params
    elif len(keys) == 3 and keys[0] == "prices":
        cls = Price
    section = ""
    for key in keys[:-1]:
        section = join_path(section, key)
    try:
        docs = docs_of(section, cls) if cls else ()
    except NameError as exc:
        raise ConfigurationError(f"{section}: its parameters cannot be read: {exc}") from exc
    return next((doc for doc in docs if doc.key == join_path(section, keys[-1])), None)


def docs_of(section: str, cls: type) -> tuple[KeyDoc, ...]:
    """Describe the fields of an attrs class as the keys of a section; without a name, as keys of their own."""
    options = {option.path: option for option in options_of(RunOptions)}
    option_docs = field_docs(RunOptions)
    docs = field_docs(cls)
    found = []
    for field in attrs.fields(cls):
        if field.name.startswith("_"):
            continue  # its own business
        key = join_path(section, field.name)
        option = options.get(key)
        found.append(
            KeyDoc(
                key=key,
                type=_type_name(fields_of(cls)[field.name]),
                default=default_of(field),
                is_required=field.default is attrs.NOTHING,
                doc=docs.get(field.name) or option_docs.get(option.name if option else "", ""),
                flag=option.flag if option else None,
            )
        )
    return tuple(found)


_NAMES: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "string",
    Path: "path",
    Secret: "string",
    types.NoneType: "null",
    Any: "any value",
}


def _type_name(kind: Any) -> str:
    """Say a type as a person would."""
    origin, args = get_origin(kind), [arg for arg in get_args(kind) if arg is not Ellipsis]
    if kind in _NAMES:
        return _NAMES[kind]
    if origin is typing.Annotated:
        ranges = [str(extra) for extra in args[1:] if isinstance(extra, Range)]
        return ", ".join([_type_name(args[0]), *ranges])
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, args))
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_type_name(arg) for arg in args)
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping of {_type_name(args[1])}" if len(args) > 1 else "mapping"
    if origin is not None:
        return f"list of {_type_name(args[0])}" if args else "list"
    return str(getattr(kind, "__name__", kind))
