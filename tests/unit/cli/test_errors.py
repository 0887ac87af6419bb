from __future__ import annotations

import io

import pytest

from agentcompass.cli.errors import Context, report, tell, tell_outcome
from agentcompass.errors import (
    ConfigurationError,
    EvaluationFailedError,
    EvaluationTimeoutError,
    PreflightError,
    StoreError,
)
from agentcompass.records import RequestOutcome


def reported(error, *arguments):
    stream = io.StringIO()
    code = report(error, Context.of(arguments), stream)
    return code, stream.getvalue()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 2),
        (PreflightError("x"), 3),
        (EvaluationFailedError("x"), 1),
        (EvaluationTimeoutError("x"), 124),
        (StoreError("x"), 1),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    assert reported(error)[0] == code


def test_an_expected_error_is_its_message_and_its_hint():
    _, text = reported(PreflightError("Docker does not answer", hint="Start it."))
    assert text == "error: Docker does not answer\nStart it.\n"


def test_an_unexpected_error_is_a_line_and_how_to_report_it():
    _, text = reported(ZeroDivisionError("division by zero"))
    first, second = text.splitlines()
    assert first == "error: ZeroDivisionError: division by zero"
    assert "report it" in second
    assert "Traceback" not in text


@pytest.mark.parametrize("flags", [["--log-level", "DEBUG"], ["--log-level=DEBUG"]])
def test_debugging_adds_the_traceback(flags):
    try:
        raise ConfigurationError("wrong")
    except ConfigurationError as error:
        _, text = reported(error, *flags)
    assert text.startswith("Traceback")
    assert text.endswith("error: wrong\n")


@pytest.mark.parametrize(
    "given", [["--model-api-key", "sk-verysecret"], ["--model-api-key=sk-verysecret"]]
)
def test_a_key_on_the_command_line_is_not_shown(given):
    _, text = reported(ValueError("refused: sk-verysecret"), *given)
    assert "sk-verysecret" not in text
    assert "refused: [secret]" in text


def test_a_reference_is_no_secret():
    _, text = reported(ValueError("unset: ${MODEL_API_KEY}"), "--model-api-key", "${MODEL_API_KEY}")
    assert "${MODEL_API_KEY}" in text


def test_messages_cannot_command_the_terminal():
    _, text = reported(ConfigurationError("file \x1b[2Jname\x07"))
    assert text == "error: file name\n"


def test_a_stream_without_unicode_gets_escapes():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    tell("d\xe9j\xe0", Context.of([]), stream)
    assert raw.getvalue() == b"d\\xe9j\\xe0\n"


def test_nobody_to_tell_is_no_further_error():
    stream = io.StringIO()
    stream.close()
    tell("text", Context.of([]), stream)


def test_an_error_of_the_system_is_told_with_its_file():
    error = FileNotFoundError(2, "No such file or directory", "x\x1b.txt")
    assert reported(error) == (1, "error: No such file or directory: 'x\\x1b.txt'\n")


def test_a_line_of_thousands_of_characters_keeps_its_ends():
    _, text = reported(ConfigurationError("a" * 9000 + " is too long"))
    assert text.startswith("error: aaa")
    assert text.endswith("a is too long\n")
    assert len(text) < 1100


def test_the_result_for_programs_has_no_secret():
    context = Context.of(["--model-api-key", "sk-verysecret"])
    value = {"sk-verysecret": ["x sk-verysecret", 1, None], "ok": ({"a": "sk-verysecret"},)}
    assert context.scrubbed(value) == {
        "[secret]": ["x [secret]", 1, None],
        "ok": [{"a": "[secret]"}],
    }


def told(outcome, *, is_alone):
    stream = io.StringIO()
    tell_outcome(outcome, Context.of([]), stream, is_alone=is_alone)
    return stream.getvalue()


def test_the_errors_of_several_requests_are_told_apart_by_their_names():
    broken = PreflightError("no Docker", hint="Start it.")
    outcome = RequestOutcome(name="o\x07ne", status="failed", exception=broken)
    assert told(outcome, is_alone=False) == "error: one: no Docker\nStart it.\n"
    assert told(outcome, is_alone=True) == "error: no Docker\nStart it.\n"


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"error": "the run was ended"}, "the run was ended"), ({}, "it was cancelled")],
    ids=["with a text", "without"],
)
def test_a_request_without_an_exception_is_told_by_what_is_known(fields, words):
    outcome = RequestOutcome(name="one", status="cancelled", **fields)
    assert told(outcome, is_alone=True) == f"error: {words}\n"


def test_secrets_in_results_are_taken_out_at_any_depth():
    context = Context.of(["--model-api-key", "sk-verysecret"])
    value = {"a sk-verysecret": ["sk-verysecret", 7, None, {"b": ("xsk-verysecretx",)}]}
    assert context.scrubbed(value) == {"a [secret]": ["[secret]", 7, None, {"b": ["x[secret]x"]}]}
