"""Merging of layers: its laws, and where each value says it comes from."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.plan.merge import history, inherit, leaves, merge, merge_all, placed, put, source
from agentcompass.spec.codec import without_nulls
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Origin, from_python

KEYS = st.sampled_from("abc")
LEAVES = st.none() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2)
DOCUMENTS = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3)), max_size=3
)
QUICK = settings(max_examples=60, deadline=None)


def _tree(value, layer="x"):
    problems = Problems()
    node = from_python(value, Origin(layer=layer, where=f"argument {layer}"), problems)
    assert not len(problems)
    return node


def _plain(node):
    if isinstance(node.data, dict):
        return {key: _plain(item) for key, item in node.items()}
    return [_plain(item) for item in node.data] if isinstance(node.data, tuple) else node.data


def _merged(*values):
    return _plain(merge_all(_tree(value, str(n)) for n, value in enumerate(values)))


def _expected(lower, upper):
    """The rule, stated once more on plain data."""
    if not (isinstance(lower, dict) and isinstance(upper, dict)):
        return upper
    return lower | {k: _expected(lower.get(k), v) if k in lower else v for k, v in upper.items()}


@QUICK
@given(DOCUMENTS, DOCUMENTS)
def test_mappings_merge_and_everything_else_replaces(lower, upper):
    assert _merged(lower, upper) == _expected(lower, upper)


@QUICK
@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_it_does_not_matter_which_layers_are_merged_first(a, b, c):
    left = merge(merge(_tree(a), _tree(b)), _tree(c))
    right = merge(_tree(a), merge(_tree(b), _tree(c)))
    assert _plain(left) == _plain(right)


@QUICK
@given(DOCUMENTS)
def test_an_empty_layer_and_the_same_layer_change_nothing(a):
    assert _merged(a, {}) == _merged({}, a) == _merged(a, a) == a


@QUICK
@given(DOCUMENTS, DOCUMENTS)
def test_every_value_of_the_upper_layer_is_said_to_come_from_it(lower, upper):
    merged = merge(_tree(lower, "lower"), _tree(upper, "upper"))
    of_upper = {path for path, node in leaves(_tree(upper)) if node.data != {}}
    for path, node in leaves(merged):
        if path in of_upper:
            assert node.origin.layer == "upper"
        elif node.data != {}:
            assert node.origin.layer == "lower"


@QUICK
@given(DOCUMENTS, DOCUMENTS)
def test_a_null_takes_everything_below_it_away(lower, upper):
    assert without_nulls(merge(_tree({"a": lower}), _tree({"a": None}))).data == {}
    assert _merged({"a": lower}, {"a": None}, {"a": upper}) == {"a": upper}


@QUICK
@given(DOCUMENTS, DOCUMENTS)
def test_merging_changes_neither_of_its_layers(lower, upper):
    below, above = _tree(lower), _tree(upper)
    merge(below, above)
    assert (_plain(below), _plain(above)) == (lower, upper)


def test_a_layer_that_says_nothing_is_none():
    tree = _tree({"a": 1})
    assert merge(None, tree) is merge(tree, None) is tree
    assert merge_all([None, None]) is None


def test_a_value_knows_what_it_overrode_nearest_first():
    merged = merge_all(_tree({"a": {"b": n}}, f"layer {n}") for n in range(3))
    node = merged.get("a").get("b")
    assert (node.data, node.origin.layer) == (2, "layer 2")
    assert [(each.data, each.origin.layer) for each in history(node)] == [
        (1, "layer 1"),
        (0, "layer 0"),
    ]


def test_a_request_adds_to_the_same_component():
    section, dropped = inherit(_tree({"id": "a", "x": 1, "y": 1}), _tree({"id": "a", "y": 2}))
    assert (_plain(section), dropped) == ({"id": "a", "x": 1, "y": 2}, ())


def test_a_request_without_id_adds_to_the_inherited_component():
    section, dropped = inherit(_tree({"id": "a", "x": 1}), _tree({"y": 2}))
    assert (_plain(section), dropped) == ({"id": "a", "x": 1, "y": 2}, ())


def test_fields_of_another_component_are_dropped_and_named():
    section, dropped = inherit(_tree({"id": "a", "x": 1, "y": 1}), _tree({"id": "b", "y": 2}))
    assert (_plain(section), dropped) == ({"id": "b", "y": 2}, ("x", "y"))


def test_defaults_without_id_are_for_any_component():
    section, dropped = inherit(_tree({"x": 1}), _tree({"id": "b"}))
    assert (_plain(section), dropped) == ({"x": 1, "id": "b"}, ())


def test_a_value_can_be_placed_at_a_path_with_an_origin_that_knows_it():
    tree = placed("model.params.x", _tree(1), Origin(layer="l", where="w"))
    assert _plain(tree) == {"model": {"params": {"x": 1}}}
    assert tree.get("model").get("params").origin.path == "model.params"


def test_putting_a_value_in_leaves_the_mappings_around_it_as_they_are():
    tree = put(_tree({"a": {"b": 1}, "c": 1}, "file"), "a.d.e", _tree(2, "flag"))
    assert _plain(tree) == {"a": {"b": 1, "d": {"e": 2}}, "c": 1}
    assert tree.origin.layer == tree.get("a").origin.layer == "file"


def test_putting_a_value_into_what_is_no_mapping_changes_nothing():
    assert _plain(put(_tree({"a": [1]}), "a.b", _tree(2))) == {"a": [1]}
    assert _plain(put(_tree({"a": None}), "a.b", _tree(2))) == {"a": {"b": 2}}


def test_an_origin_names_layer_and_place():
    assert source(Origin(layer="config file", where="f:1:2")) == "config file (f:1:2)"
    assert source(Origin(layer="built-in default", where="")) == "built-in default"
