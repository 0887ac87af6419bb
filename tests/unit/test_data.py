"""Classes made by `frozen` behave like those of attrs, whose methods they do without."""

import pickle

import attrs
import pytest

from agentcompass.data import frozen


def _pair(decorate):
    @decorate(kw_only=True)
    class Point:
        x: int
        y: object = 2
        secret: str = attrs.field(default="s", repr=False)
        note: str = attrs.field(default="", eq=False)

    return Point


Ours, Theirs = _pair(frozen), _pair(attrs.frozen)


@frozen
class Plain:
    x: int


@frozen(kw_only=True)
class Derived(Ours):
    z: int = 3


def test_it_is_shown_as_attrs_shows_it():
    assert repr(Ours(x=1, note="n")) == repr(Theirs(x=1, note="n")) == "Point(x=1, y=2, note='n')"
    assert repr(Derived(x=1)) == "Derived(x=1, y=2, note='', z=3)"


@pytest.mark.parametrize("cls", [Ours, Theirs], ids=["frozen", "attrs.frozen"])
def test_objects_are_equal_by_the_fields_that_count(cls):
    one = cls(x=1, y=(1,))
    assert one == cls(x=1, y=(1,), note="other")
    assert hash(one) == hash(cls(x=1, y=(1,), note="other"))
    assert one != cls(x=2, y=(1,))
    assert one != cls(x=1, y=(1,), secret="other")


def test_objects_of_another_class_are_never_equal():
    assert Ours(x=1) != Theirs(x=1)
    assert Ours(x=1) != Derived(x=1)
    assert Derived(x=1) != Ours(x=1)
    assert Derived(x=1) == Derived(x=1)


def test_nothing_can_be_set():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Plain(1).x = 2


def test_without_options_the_class_follows_the_decorator_itself():
    assert Plain(1) == Plain(1) != Plain(2)
    assert {Plain(1), Plain(1)} == {Plain(1)}


def test_without_eq_an_object_is_equal_to_itself_only():
    @frozen(eq=False)
    class Service:
        x: int

    service = Service(1)
    same = service
    assert service == same
    assert service != Service(1)
    assert hash(service) == object.__hash__(service)


def test_methods_that_a_class_has_itself_are_kept():
    @frozen
    class Own:
        x: int

        def __repr__(self):
            return "own"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    assert repr(Own(1)) == "own"
    assert Own(1) == 5
    assert hash(Own(1)) == 7


def test_objects_can_be_pickled():
    assert pickle.loads(pickle.dumps(Plain(1))) == Plain(1)
