"""The `matrix` of an orchestration: a cross product of components, expanded into requests before everything else.

A request that comes of it consists of the very values that stand in the matrix, so that what is wrong with them is
told where they stand. References are followed before: labels, patterns and names are the values.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

import attrs

from agentcompass.data import frozen
from agentcompass.errors import did_you_mean
from agentcompass.spec.codec import structure_value
from agentcompass.spec.document import names_of
from agentcompass.spec.problems import Problems, join_path
from agentcompass.spec.tree import (
    Written,
    kind_of,
    mapping,
    report,
    report_key,
    report_unknown_keys,
    text_of,
)
from agentcompass.spec.written import MatrixSection

AXES: Final[Mapping[str, str]] = {
    "models": "model",
    "harnesses": "harness",
    "benchmarks": "benchmark",
    "environments": "environment",
}
"""What can be varied, and the section of a request that each gives."""
MAX_REQUESTS: Final = 10_000
"""Of one matrix: more than anybody compares, and few enough to be resolved in half a minute."""

_OWN: Final = (*AXES, "exclude", "name")
_NAME_ORDER: Final = ("model", "benchmark", "harness", "environment")
"""As in the names of single evaluations, whose results can then be reused."""
_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

Combination: TypeAlias = Mapping[str, str]
"""By section, the label of what stands there."""


def expand_matrix(root: Written, problems: Problems, *, is_used: bool = True) -> Written:
    """Return an orchestration whose `requests` are followed by those that its matrix makes.

    Args:
        root: With its references followed.
        problems: Gets everything that is wrong with the matrix itself; its sections are checked as those of requests.
        is_used: False leaves out what depends on references that could not be followed.
    """
    matrix = root.get("matrix")
    requests = root.get("requests")
    if matrix is None or matrix.data is None:
        return root
    if not matrix.is_mapping:
        report(problems, matrix, f"must be a mapping, not {kind_of(matrix)}")
        return root
    made = _Matrix(matrix, root.get("defaults"), problems, is_used=is_used).requests()
    written: tuple[Written, ...] = ()
    if requests is not None and requests.data is not None:
        if not isinstance(requests.data, tuple):
            return root
        written = requests.data
    both = Written(data=(*written, *made), origin=(requests or matrix).origin)
    return attrs.evolve(root, data={**root.data, "requests": both})


@final
class _Matrix:
    """One matrix while it is expanded."""

    def __init__(
        self, node: Written, defaults: Written | None, problems: Problems, *, is_used: bool
    ) -> None:
        self._node, self._defaults, self._problems = node, defaults, problems
        self._is_used = is_used
        self._is_partial = False
        """Some texts are not known, since their references were not followed."""

    def requests(self) -> list[Written]:
        """All requests; also after a problem, as far as can be, so that theirs are found at once."""
        report_unknown_keys(self._problems, self._node, names_of(MatrixSection))
        axes = {AXES[key]: self._axis(key, node) for key, node in self._node.items() if key in AXES}
        size = math.prod(map(len, axes.values()))
        if not axes:
            report(self._problems, self._node, f"needs one of {', '.join(AXES)}")
        elif size > MAX_REQUESTS:
            sentence = f"makes {size:,} requests, and more than {MAX_REQUESTS:,} are not accepted"
            report(self._problems, self._node, sentence)
        if not axes or size > MAX_REQUESTS:
            return []
        excluded = self._excluded(axes)
        template = self._template(axes)
        labels = (dict(zip(axes, each, strict=True)) for each in itertools.product(*axes.values()))
        kept = [each for each in labels if not any(_matches(each, rule) for rule in excluded)]
        if size and not kept:
            report(self._problems, self._node, "leaves nothing to run", "exclude")
        named = [(template.name(each), each) for each in kept]
        if not self._is_partial:
            self._check_names(named)
        return [
            self._request(name, {k: axes[k][v] for k, v in each.items()}) for name, each in named
        ]

    # --- what is combined

    def _axis(self, key: str, node: Written) -> dict[str, Written]:
        """The sections of an axis by label."""
        sections: dict[str, Written] = {}
        single = self._node.get(AXES[key])
        if single is not None:
            report_key(self._problems, single, f"stands beside `{key}`: write one of both")
        if not node.data or not isinstance(node.data, dict | tuple):
            sentence = (
                "must be a list of ids or of sections with an id, or a mapping from labels to such"
            )
            report(self._problems, node, sentence)
            return sections
        pairs = node.items() if node.is_mapping else ((None, item) for item in node.data)
        for given, item in pairs:
            section = item
            if not item.is_mapping:
                # under a label, nothing says: what `defaults` say
                is_id = given is None or item.data is not None
                section = mapping(item.origin, {"id": item} if is_id else {})
            label = given or self._id(section)
            wrong = None if label is None else _wrong_label(label, is_key=given is not None)
            if wrong is not None:
                report_key(self._problems, item, f"the label {label!r} {wrong}")
            elif label is not None and label in sections:
                first = sections[label].origin.where
                sentence = f"the label {label!r} is taken (first at {first}): write a mapping from labels to sections"
                report(self._problems, item, sentence)
            elif label is not None:
                sections[label] = section
        return sections

    def _id(self, section: Written) -> str | None:
        node = section.get("id")
        if node is None or node.data is None:
            report(self._problems, section, "is required, or a label before the section", "id")
            return None
        return self._text(node)

    def _text(self, node: Written) -> str | None:
        if node.stored is not None and not self._is_used:
            self._is_partial = True
            return node.stored
        text: str | None = structure_value(node, str, self._problems)
        return text

    # --- what is left out

    def _excluded(self, axes: Mapping[str, Mapping[str, Written]]) -> list[dict[str, list[str]]]:
        """By section, the labels of each combination that is left out."""
        node = self._node.get("exclude")
        if node is None or node.data is None:
            return []
        if not isinstance(node.data, tuple):
            report(self._problems, node, f"must be a list of mappings, not {kind_of(node)}")
            return []
        rules = []
        for entry in node.data:
            if not entry.is_mapping or not entry.data:
                report(self._problems, entry, f"must be a mapping of {', '.join(axes)} to labels")
                continue
            report_unknown_keys(self._problems, entry, tuple(axes))
            known = [(key, item) for key, item in entry.items() if key in axes]
            rules.append({key: self._labels(item, axes[key]) for key, item in known})
        return [rule for rule in rules if rule]

    def _labels(self, node: Written, known: Mapping[str, Written]) -> list[str]:
        found: list[str] = []
        for item in node.data if isinstance(node.data, tuple) else (node,):
            pattern = self._text(item)
            if pattern is None:
                continue
            matching = [label for label in known if label_matches(label, pattern)]
            if not matching and not self._is_partial:
                sentence = f"there is no {pattern!r} in this matrix{did_you_mean(pattern, known)}"
                report(self._problems, item, sentence)
            found += matching
        return found

    # --- what comes of it

    def _template(self, axes: Mapping[str, object]) -> _Template:
        others = {key: self._label_of(key) for key in AXES.values() if key not in axes}
        known = {key: label for key, label in others.items() if label is not None}
        by_default = _Template("_".join(f"{{{key}}}" for key in _NAME_ORDER if key in axes), known)
        node = self._node.get("name")
        text = None if node is None or node.data is None else self._text(node)
        if node is None or text is None or text == node.stored:
            return by_default
        for found in _PLACEHOLDER.finditer(text):
            key = found[1]
            if key is not None and key not in {*axes, *known}:
                which = did_you_mean(key, {*axes, *known})
                report(self._problems, node, f"nothing is called {{{key}}} here{which}")
                return by_default
            if key is None and len(found[0]) == 1:
                sentence = f"a single `{found[0]}` means nothing: write it twice for the character"
                report(self._problems, node, sentence)
                return by_default
        return _Template(text, known)

    def _label_of(self, key: str) -> str | None:
        """The id of what is not varied, for names."""
        section = self._node.get(key) or (self._defaults.get(key) if self._defaults else None)
        return text_of(section.get("id")) if section else None

    def _check_names(self, named: Iterable[tuple[str, Combination]]) -> None:
        seen: dict[str, Combination] = {}
        for name, combination in named:
            other = seen.setdefault(name, combination)
            if other is not combination:
                sentence = f"two combinations are called {name!r}: {_shown(other)}, and {_shown(combination)}"
                report(self._problems, self._node, sentence, "name")
                return

    def _request(self, name: str, sections: Mapping[str, Written]) -> Written:
        shared = {key: item for key, item in self._node.items() if key not in _OWN}
        template = self._node.get("name")
        origin = attrs.evolve(
            (template or self._node).origin, path=join_path(self._node.origin.path, "name")
        )
        named = Written(data=name, origin=origin)
        return mapping(self._node.origin, {"name": named, **shared, **sections})


@final
@frozen
class _Template:
    """Names with placeholders."""

    text: str
    known: Mapping[str, str]
    """By placeholder, what is the same for all."""

    def name(self, combination: Combination) -> str:
        """The name of one combination."""
        labels = {**self.known, **combination}
        return _PLACEHOLDER.sub(
            lambda found: labels[found[1]] if found[1] else found[0][0], self.text
        )


def _wrong_label(label: str, *, is_key: bool) -> str | None:
    """What a label must be and is not; names are made of labels, and references in keys are not followed."""
    if is_key and "${" in label:
        return "must not have references: write it out, or a list of ids, which may have them"
    if not (label.strip() and label.isprintable()):
        return "must be a non-empty line of printable text"
    return None


def label_matches(label: str, pattern: str) -> bool:
    """Whether a pattern as for file names means a label; one that is the label always does."""
    return label == pattern or fnmatch.fnmatchcase(label, pattern)


def _matches(combination: Combination, rule: Mapping[str, list[str]]) -> bool:
    return all(combination[key] in labels for key, labels in rule.items())


def _shown(combination: Combination) -> str:
    return " ".join(f"{key}={label}" for key, label in combination.items())
