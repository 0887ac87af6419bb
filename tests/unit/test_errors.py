"""Errors say what is wrong and what to do, and carry what a program needs."""

import pickle

import pytest

from agentcompass import errors


def _exceptions(cls=errors.AgentCompassError):
    yield cls
    for each in cls.__subclasses__():
        yield from _exceptions(each)


@pytest.mark.parametrize(
    ("cls", "builtin", "code"),
    [
        (errors.ConfigurationError, ValueError, 2),
        (errors.NestedLoopError, ValueError, 2),
        (errors.PreflightError, RuntimeError, 3),
        (errors.EvaluationFailedError, RuntimeError, 1),
        (errors.EvaluationTimeoutError, TimeoutError, 124),
        (errors.StoreError, RuntimeError, 1),
        (errors.SandboxError, RuntimeError, 1),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_each_error_is_a_builtin_one_too_and_has_an_exit_code(cls, builtin, code):
    assert issubclass(cls, errors.AgentCompassError)
    assert issubclass(cls, builtin)
    assert cls.exit_code == code


def test_every_error_is_drawn_at_the_top_of_the_module():
    drawn = errors.__doc__
    names = {cls.__name__ for cls in _exceptions() if cls.__module__ == errors.__name__}
    assert {name for name in names if name not in drawn} == set()


def test_the_hint_follows_the_message():
    assert str(errors.PreflightError("no engine", hint="Start it.")) == "no engine\nStart it."
    assert str(errors.PreflightError("no engine")) == "no engine"


def test_an_unknown_component_names_the_nearest_or_all_of_a_few():
    near = errors.UnknownComponentError("harness", "openai_chatt", ["openai_chat", "nop"])
    assert str(near) == "unknown harness 'openai_chatt' (did you mean 'openai_chat'?)"
    assert (near.kind, near.name, near.known) == ("harness", "openai_chatt", ("nop", "openai_chat"))
    far = errors.UnknownComponentError("harness", "zzz", ["openai_chat", "nop"])
    assert str(far) == "unknown harness 'zzz' (known: nop, openai_chat)"
    many = errors.UnknownComponentError("harness", "zzz", [f"harness_{n}" for n in range(20)])
    assert str(many) == "unknown harness 'zzz'"


def test_an_evaluation_error_carries_the_result_as_far_as_it_got():
    error = errors.EvaluationTimeoutError("over", result={"summary": {}}, paths={"run_dir": "r"})
    assert (error.result, error.paths) == ({"summary": {}}, {"run_dir": "r"})
    assert errors.EvaluationFailedError("failed").paths == {}


def test_a_failure_of_the_infrastructure_has_a_code_and_says_whether_another_try_helps():
    error = errors.ModelError("rejected", code="bad-key", retryable=False, hint="Check it.")
    assert (error.code, error.retryable, str(error)) == ("bad-key", False, "rejected\nCheck it.")
    codes = [
        cls("x").code
        for cls in (
            errors.InfraError,
            errors.SandboxError,
            errors.ModelError,
            errors.EvaluatorError,
        )
    ]
    assert codes == ["infra", "sandbox-failed", "model-failed", "evaluator-failed"]
    assert errors.SandboxError("x").retryable


def test_problems_are_kept_as_data():
    error = errors.ConfigurationError("two lines", problems=iter(["a", "b"]))
    assert error.problems == ("a", "b")


class Interrupting(Exception):
    def __str__(self):
        raise KeyboardInterrupt


class Exiting(Exception):
    def __repr__(self):
        raise SystemExit(3)


class Failing(Exception):
    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "is_safe"),
    [(ValueError("x"), True), (Failing(), True), (Exiting(), False), (Interrupting(), False)],
    ids=["ordinary", "raises an error", "ends the process", "interrupts"],
)
def test_an_error_whose_text_ends_more_than_itself_is_not_safe(error, is_safe):
    assert errors.is_safe(error) == is_safe


def test_any_error_can_be_described_and_an_interrupt_stays_one():
    assert errors.describe(ValueError("bad")) == "ValueError: bad"
    assert errors.describe(ValueError()) == "ValueError"
    assert errors.describe(Failing()) == "Failing: (its text cannot be shown: ZeroDivisionError)"
    with pytest.raises(KeyboardInterrupt):
        errors.describe(Interrupting())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((1, "task"), "1 task"),
        ((1200, "task"), "1,200 tasks"),
        ((0, "entry", "entries"), "0 entries"),
    ],
)
def test_counts_agree_with_their_nouns(given, text):
    assert errors.counted(*given) == text


@pytest.mark.parametrize(
    "error",
    [
        errors.PreflightError("m", hint="h"),
        errors.UnknownComponentError("harness", "x", ["a", "b"]),
        errors.EvaluationFailedError("m", result={"a": 1}, paths={"run_dir": "r"}),
        errors.ModelError("m", code="c", retryable=False),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_go_from_process_to_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert vars(again) == vars(error)
