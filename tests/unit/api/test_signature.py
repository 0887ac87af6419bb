"""Entry points whose arguments are the fields of an options class."""

import inspect

import attrs
import pytest

from agentcompass.api.signature import takes, takes_after_first
from agentcompass.errors import ConfigurationError
from agentcompass.options import LaunchOptions, RunOptions


@takes(RunOptions)
def plain(options):
    """Do something.

    Args:
        options: Each is a keyword argument.

    Returns:
        The options.
    """
    return options


@takes_after_first(LaunchOptions)
async def awaited(orchestration, options):
    """Do something later."""
    return orchestration, options


def test_keyword_arguments_become_the_fields():
    options = plain(benchmark="humaneval", k=3)
    assert (options.benchmark, options.k, options.harness) == ("humaneval", 3, None)


async def test_an_asynchronous_function_stays_one_and_keeps_its_first_argument():
    assert inspect.iscoroutinefunction(awaited)
    assert await awaited("spec", progress="none") == ("spec", LaunchOptions(progress="none"))
    assert await awaited(orchestration="spec") == ("spec", LaunchOptions())


def test_the_signature_has_every_field_once_keyword_only_and_optional():
    parameters = inspect.signature(plain).parameters
    assert set(parameters) == set(attrs.fields_dict(RunOptions))
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert {p.default for p in parameters.values()} == {None}
    assert next(iter(inspect.signature(awaited).parameters)) == "orchestration"


def test_what_people_give_first_stands_first():
    assert list(inspect.signature(plain).parameters)[:3] == ["benchmark", "harness", "model"]


def test_the_docstring_describes_every_field_in_the_place_of_the_options():
    doc = plain.__doc__
    assert all(f"\n    {name}: " in doc for name in attrs.fields_dict(RunOptions))
    assert "options:" not in doc
    assert doc.rstrip().endswith("The options.")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plain(benchmrk="x"), r"plain\(\) has no argument 'benchmrk' .*'benchmark'"),
        (lambda: plain("humaneval"), r"1 positional arguments; it takes none"),
        (lambda: awaited().send(None), r"needs the argument 'orchestration'"),
        (lambda: awaited("a", "b").send(None), r"2 positional.*it takes 'orchestration'"),
    ],
    ids=["unknown", "positional", "missing", "too many"],
)
def test_a_wrong_call_is_a_configuration_error(call, message):
    with pytest.raises(ConfigurationError, match=message):
        call()
