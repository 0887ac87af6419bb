"""Deep merge of layers, lowest first, in which every value remembers where it came from. Pure.

Mappings merge key by key; anything else replaces what is below it. An explicit null takes a value back to the
built-in default: it stands in the result as null, hides every lower layer, and is dropped when objects are made.
Merging is associative, and an empty mapping over a mapping changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import attrs

from agentcompass.spec.problems import join_path
from agentcompass.spec.tree import Origin, Written, mapping


def merge(lower: Written | None, upper: Written | None) -> Written | None:
    """Return `upper` over `lower`; None stands for a layer that says nothing."""
    if lower is None or upper is None:
        return lower if upper is None else upper
    if not upper.is_mapping or upper.resets:
        return attrs.evolve(upper, overrode=_chain(upper, lower))
    if not lower.is_mapping:
        return attrs.evolve(upper, resets=True, overrode=_chain(upper, lower))
    items = dict(lower.data)
    for key, item in upper.items():
        items[key] = _merged(items.get(key), item)
    return attrs.evolve(upper, data=items, resets=lower.resets, overrode=lower.overrode)


def merge_all(layers: Iterable[Written | None]) -> Written | None:
    """Merge layers, lowest first."""
    return functools.reduce(merge, layers, None)


def inherit(
    defaults: Written | None, request: Written | None
) -> tuple[Written | None, tuple[str, ...]]:
    """Put a request's component section over that of the defaults.

    Fields belong to the component they were written for: if the request names another id, they are dropped.

    Returns:
        The section, and the names of dropped fields.
    """
    if defaults is None or request is None:
        return merge(defaults, request), ()
    theirs, own = _id(defaults), _id(request)
    if own is None or theirs is None or own == theirs or not defaults.is_mapping:
        return merge(defaults, request), ()
    return request, tuple(key for key, _ in defaults.items() if key != "id")


def placed(path: str, value: Written, origin: Origin) -> Written:
    """Return mappings around a value so that it stands at a dotted path.

    Args:
        path: Keys, joined by dots.
        value: What stands there.
        origin: Of the outermost mapping; those inside have the path that leads to them.
    """
    keys = path.split(".")
    for depth in reversed(range(len(keys))):
        outer = attrs.evolve(origin, path=".".join(keys[:depth]))
        value = mapping(outer, {keys[depth]: value})
    return value


def put(node: Written, path: str, value: Written) -> Written:
    """Return a mapping in which a value is merged in at a dotted path; the mappings around it keep their origins.

    Where something on the way is no mapping, nothing changes: that is a problem for whoever checks the document.
    """
    key, _, rest = path.partition(".")
    below = node.get(key)
    if rest and below is not None and below.data is not None and not below.is_mapping:
        return node
    if rest:
        outer = below if below is not None and below.is_mapping else mapping(value.origin)
        below = put(outer, rest, value)
    else:
        below = merge(below, value)
    return attrs.evolve(node, data={**dict(node.items()), key: below})


def history(value: Written) -> tuple[Written, ...]:
    """Return what a value overrode, nearest first."""
    chain = []
    below = value.overrode
    while below is not None:
        chain.append(below)
        below = below.overrode
    return tuple(chain)


def leaves(node: Written, path: str = "") -> Iterable[tuple[str, Written]]:
    """Iterate over what is no mapping, with dotted paths; empty mappings count."""
    if node.is_mapping and node.data:
        for key, item in node.items():
            yield from leaves(item, join_path(path, key))
    else:
        yield path, node


def source(origin: Origin) -> str:
    """Name an origin for people: its layer, and where exactly."""
    return f"{origin.layer} ({origin.where})" if origin.where else origin.layer


def _merged(lower: Written | None, upper: Written) -> Written:
    return upper if lower is None else merge(lower, upper) or upper


def _chain(upper: Written, lower: Written) -> Written:
    """`lower` below whatever `upper` has overridden already."""
    if upper.overrode is None:
        return lower
    return attrs.evolve(upper.overrode, overrode=_chain(upper.overrode, lower))


def _id(section: Written) -> object:
    """The component a section names; None if it leaves that to the layer below."""
    node = section.get("id")
    return None if node is None else node.text or node.data
