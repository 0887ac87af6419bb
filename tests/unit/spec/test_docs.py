"""Descriptions of settings are the strings under the fields."""

import attrs
import pytest

from agentcompass.spec.docs import field_docs
from agentcompass.spec.document import names_of
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig
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


@attrs.frozen(kw_only=True)
class Base:
    one: int = 1
    """The first,
    on two lines."""
    two: int = 2
    three: int = 3
    """Of the base."""


@attrs.frozen(kw_only=True)
class Derived(Base):
    three: int = 4
    """Of the derived."""


def test_strings_under_fields_are_found_also_those_of_base_classes():
    assert field_docs(Derived) == {"one": "The first, on two lines.", "three": "Of the derived."}


def test_a_class_without_source_has_no_docs():
    assert field_docs(attrs.make_class("Made", {"x": attrs.field()})) == {}
    assert field_docs(int) == {}


@pytest.mark.parametrize(
    "cls",
    [
        ExecutionConfig, RuntimeConfig, ModelSection, ReuseSection, OutputSection,
        OrchestrationDefaults, RunRequestSpec, MatrixSection, OrchestrationSpec, Price,
    ],
    ids=lambda cls: cls.__name__,
)  # fmt: skip
def test_every_key_that_a_user_can_write_is_described(cls):
    assert names_of(cls)
    assert set(field_docs(cls)) == set(names_of(cls))
