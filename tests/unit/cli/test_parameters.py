from __future__ import annotations

import inspect
import io
import re
import sys

import pytest
from cyclopts import App, CycloptsError

from agentcompass.cli.errors import Context
from agentcompass.cli.parameters import OptionCommand, flag
from agentcompass.options import LaunchOptions, RunOptions, options_of
from agentcompass.secrets import Scrubber

BENCH = ("bench", "harness", "model")
READING = {"declares": "all"}


@pytest.fixture(autouse=True, params=["all", "named"])
def _declared(request, monkeypatch):
    """Every test holds whether cyclopts is told of all options or of those only that the line names."""
    monkeypatch.setitem(READING, "declares", request.param)


def parse(*arguments, cls=RunOptions, extra=()):
    """Parse arguments of a command and return what its body gets."""
    got = {}

    def body(options, **others):
        got.update(options=options, others=others)
        return 0

    app = App(exit_on_error=False, print_error=False, result_action="return_value")
    command = OptionCommand(cls, body, extra=extra)
    app.command(command.on(arguments) if READING["declares"] == "named" else command, name="run")
    command, bound, _ = app.parse_args(["run", *arguments], print_error=False, exit_on_error=False)
    command(*bound.args, **bound.kwargs, context=Context(False, Scrubber()))
    return got["options"] if not extra else (got["options"], got["others"])


def refused(*arguments, **options):
    with pytest.raises(CycloptsError) as caught:
        parse(*arguments, **options)
    return str(caught.value)


def test_nothing_given_means_nothing_given():
    assert parse(*BENCH) == RunOptions(benchmark="bench", harness="harness", model="model")


def test_every_option_of_the_list_has_its_flag():
    values = {
        "positional": [],
        "switch": [],
        "reuse": [],
        "object": ['{"a": 1}'],
        "array": ['["a"]'],
        "pairs": ["docker=2"],
    }
    words = {
        "progress": "plain",
        "log_level": "INFO",
        "file_log_level": "INFO",
        "attempt_strategy": "pass",
    }
    for option in options_of(RunOptions):
        if option.flag is None or option.form == "positional":
            continue
        given = values.get(option.form, [words.get(option.name, "1")])
        options = parse(*BENCH, option.flag, *given)
        assert getattr(options, "reuse" if option.form == "reuse" else option.name) is not None


def test_single_values_have_the_type_of_their_field():
    options = parse(
        *BENCH, "--k", "3", "--min-coverage", "0.5", "--timeout-seconds=7", "--results-dir", "out"
    )
    assert (options.k, options.min_coverage, options.timeout_seconds) == (3, 0.5, 7)
    assert str(options.results_dir) == "out"


@pytest.mark.parametrize("text", ["2.9", "yes", "", "1_000", "0x10", "nan", "1e3"])
def test_a_whole_number_is_not_made_of_anything_else(text):
    assert (
        refused(*BENCH, f"--k={text}") == f"Invalid value for --k: {text!r} is not a whole number"
    )


@pytest.mark.parametrize("text", ["x", "nan", "inf", "1_0"])
def test_a_number_is_finite_and_plain(text):
    assert refused(*BENCH, "--min-coverage", text).endswith(f"{text!r} is not a number")


def test_negative_numbers_reach_the_check_that_explains_them():
    assert parse(*BENCH, "--max-retries", "-1").max_retries == -1


def test_repeated_values_are_all_kept():
    options = parse(
        *BENCH, "--recipe", "a", "--recipe=b", "--config", "x.yaml", "--config", "y.yaml"
    )
    assert options.enabled_recipes == ["a", "b"]
    assert options.config_path == ["x.yaml", "y.yaml"]


def test_pairs_are_all_kept():
    options = parse(
        *BENCH,
        "--provider-limit",
        "docker=4",
        "--provider-limit",
        "host_process=2",
        "--env-open-qps",
        "docker=0.5",
    )
    assert options.provider_limits == {"docker": 4, "host_process": 2}
    assert options.env_open_qps == {"docker": 0.5}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["docker"], "'docker' is not of the form NAME=N"),
        (["=4"], "'=4' is not of the form NAME=N"),
        (["docker=many"], "'many' is not a whole number"),
        (["docker=1.5"], "'1.5' is not a whole number"),
        (["docker=1", "docker=2"], "'docker' is given twice"),
    ],
)
def test_wrong_pairs_are_refused(pairs, message):
    given = [part for pair in pairs for part in ("--provider-limit", pair)]
    assert message in refused(*BENCH, *given)


def test_a_rate_is_finite():
    assert "'nan' is not a number" in refused(*BENCH, "--env-open-qps", "docker=nan")


def test_one_protocol_is_a_text_and_several_are_a_list():
    assert parse(*BENCH, "--model-api-protocol", "auto").model_api_protocol == "auto"
    several = parse(
        *BENCH, "--model-api-protocol", "anthropic", "--model-api-protocol", "openai-chat"
    )
    assert several.model_api_protocol == ["anthropic", "openai-chat"]


@pytest.mark.parametrize(
    "option", ["--k", "--results-dir", "--benchmark-params", "--keep-environment"]
)
def test_what_can_be_given_once_is_not_taken_twice(option):
    value = {"--k": ["1"], "--results-dir": ["x"], "--benchmark-params": ["{}"]}.get(option, [])
    assert "multiple times" in refused(*BENCH, option, *value, option, *value)


def test_switches_can_be_switched_off():
    options = parse(*BENCH, "--no-enable-analysis", "--keep-environment")
    assert (options.enable_analysis, options.keep_environment) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "reuse", "run_id"),
    [
        ([], None, None),
        (["--reuse"], True, None),
        (["--reuse", "20260101-abc"], True, "20260101-abc"),
        (["--reuse=20260101-abc"], True, "20260101-abc"),
        (["--reuse", "--k", "2"], True, None),
    ],
    ids=["absent", "bare", "id", "equals", "before-another"],
)
def test_reuse_takes_an_optional_run_id(arguments, reuse, run_id):
    options = parse(*BENCH, *arguments)
    assert (options.reuse, options.reuse_run_id) == (reuse, run_id)


@pytest.mark.parametrize("arguments", [["--reuse="], ["--reuse", "--reuse"]])
def test_reuse_without_meaning_is_refused(arguments):
    assert "--reuse" in refused(*BENCH, *arguments)


def test_two_dashes_end_the_options():
    assert parse("--k", "2", "--", "bench", "harness", "--model").model == "--model"


# --- JSON


def test_an_object_is_read_as_json():
    options = parse(
        *BENCH, "--benchmark-params", '{"limit": 5, "names": ["no", "3.10"], "x": null}'
    )
    assert options.benchmark_params == {"limit": 5, "names": ["no", "3.10"], "x": None}


def test_an_object_may_stand_in_a_file(tmp_path):
    path = tmp_path / "params.json"
    path.write_text('{"caf\u00e9": true}', encoding="utf-8")
    assert parse(*BENCH, "--harness-params", f"@{path}").harness_params == {"caf\u00e9": True}


def with_stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_an_object_may_come_from_standard_input(monkeypatch):
    with_stdin(monkeypatch, b'{"temperature": 0}')
    assert parse(*BENCH, "--model-params", "-").model_params == {"temperature": 0}


def test_standard_input_is_read_by_one_option(monkeypatch):
    with_stdin(monkeypatch, b"{}")
    message = refused(*BENCH, "--model-params", "-", "--env-params", "-")
    assert re.search(r"standard input is already the value of --\w+-params", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "'{\"a\": }' is not JSON: Expecting value at line 1, column 7"),
        ("[1, 2]", "must be a JSON object; it was read as [1, 2]"),
        ('"text"', 'must be a JSON object; it was read as "text"'),
        ("limit=5", "'limit=5' is not JSON: Expecting value at line 1, column 1"),
        ('{"a": 1, "a": 2}', "key 'a' stands twice in one JSON object"),
        ('{"a": NaN}', "NaN is no JSON value"),
        (
            "@no-such-file.json",
            "file 'no-such-file.json' cannot be read: No such file or directory",
        ),
        ("[" * 100_000, "is nested too deeply"),
        ("--k", "'--k' is not JSON"),
        ("", "'' is not JSON"),
    ],
    ids=[
        "syntax",
        "list",
        "string",
        "words",
        "duplicate",
        "nan",
        "no-file",
        "deep",
        "option",
        "empty",
    ],
)
def test_what_is_no_object_is_refused_as_it_was_read(text, message):
    assert message in refused(*BENCH, "--benchmark-params", text)


def test_a_long_faulty_value_is_cut():
    assert len(refused(*BENCH, "--benchmark-params", "x" * 100_000)) < 400


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "params.json"
    path.write_bytes(b"\xff\xfe{}")
    assert "is not UTF-8 text" in refused(*BENCH, "--benchmark-params", f"@{path}")


def test_a_number_that_nothing_needs_is_refused():
    assert "is too large a number" in refused("a", "b", "c", "--k", "9" * 19)


def test_without_standard_input_nothing_can_come_from_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "there is no standard input" in refused("a", "b", "c", "--model-params", "-")


def test_an_array_of_strings_is_read_as_json():
    assert parse(*BENCH, "--retry-pattern-list", '["a", "b"]').retry_pattern_list == ["a", "b"]


@pytest.mark.parametrize("text", ["{}", "[1]", '"a"'])
def test_what_is_no_array_of_strings_is_refused(text):
    message = refused(*BENCH, "--retry-pattern-list", text)
    assert f"must be a JSON array of strings; it was read as {text}" in message


# --- usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "harness"], "parameter MODEL requires an argument"),
        ([*BENCH, "more"], "Unused Tokens: ['more']"),
        ([*BENCH, "--max-retrys", "1"], "Did you mean --max-retries?"),
        ([*BENCH, "--k"], "parameter --k requires an argument"),
        ([*BENCH, "--progress", "loud"], 'Choose from: "auto", "plain", "none"'),
        ([*BENCH, "--keep-environment=perhaps"], "--keep-environment"),
    ],
)
def test_usage_errors_say_what_is_wrong(arguments, message):
    assert message in refused(*arguments)


def test_flags_of_the_command_reach_it_with_their_defaults():
    extra = (flag("dry-run", bool, False, text="x"), flag("name", str | None, None, text="x"))
    options, others = parse(*BENCH, "--dry-run", extra=extra)
    assert options.k is None
    assert (others["dry_run"], others["name"]) == (True, None)


def test_a_launch_has_the_shared_options_only():
    assert parse("--task-concurrency", "4", cls=LaunchOptions) == LaunchOptions(task_concurrency=4)
    assert "--k" in refused("--k", "4", cls=LaunchOptions)


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        (BENCH, set()),
        ((*BENCH, "--k=3", "--no-keep-environment", "--model-params", "-"), {"k", "keep_environment", "model_params"}),
        ((*BENCH, "--reuse", "--analyze-everything"), None),
        ((*BENCH, "--help"), None),
    ],
    ids=["none", "those named", "an unknown one", "help"],
)  # fmt: skip
def test_cyclopts_is_told_of_the_options_that_a_line_names_or_of_all(line, declared):
    command = OptionCommand(RunOptions, lambda _options: 0)
    everything = set(inspect.signature(command).parameters)
    always = {"benchmark", "harness", "model", "context"}
    told = set(inspect.signature(command.on(line)).parameters)
    assert told == (everything if declared is None else always | declared)
    assert len(everything) > 30
