"""A full disk, a directory that is gone, a path that is none: one readable line and the exit code that belongs to it."""

import json
import subprocess

import pytest

from support.commandline import Program

RUN = ("run", "jsonl", "oracle", "none", "--benchmark-params", '{"path": "tasks.jsonl"}')
LONG_NAME = "a" * 300
LONG_PATH = "/tmp/" + "abcdefghi/" * 500


@pytest.fixture
def program(tmp_path):
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "hi", "answer": "x"}\n')
    return Program(tmp_path)


def told(done, code):
    """The message, which must be short, be no traceback, and not blame us."""
    message = done.stderr.strip()
    assert done.returncode == code, message
    assert message.startswith("error: "), message
    assert len(message.splitlines()) <= 2, message
    assert max(map(len, message.splitlines())) < 1200
    for word in ("Traceback", "fault of agentcompass", "Errno"):
        assert word not in message
    return message


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("launch", "--help"),
        ("env", "--help"),
        ("config", "explain", "--help"),
        ("list", "--version"),
        ("list", "harnesses"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_an_error_that_says_so(program, arguments):
    with open("/dev/full", "w") as full:
        child = program.start(*arguments, stdout=full)
        _, stderr = child.communicate(timeout=60)
    done = subprocess.CompletedProcess(arguments, child.returncode, "", stderr)
    assert told(done, 1) == ("error: standard output cannot be written: No space left on device")


def test_help_of_a_command_is_the_same_as_ever(program):
    done = program("run", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: agentcompass run ")
    assert done.stdout.endswith("id.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        RUN,
        (*RUN, "--dry-run"),
        ("launch", "x.yaml"),
        ("config", "show"),
        ("config", "explain", "execution.k"),
        ("env", "list"),
        ("env", "close"),
        ("summary", "x"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_working_directory_that_is_gone_is_said(program, arguments):
    gone = program.folder / "gone"
    shell = 'mkdir "$1"; cd "$1"; rmdir "$1"; shift; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", shell, "sh", str(gone), *program.arguments(*arguments)],
        env=program.environment(),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert "working directory" in told(done, 3)


@pytest.mark.parametrize("path", [LONG_NAME, LONG_PATH], ids=["name", "path"])
@pytest.mark.parametrize(
    "flags",
    [
        ("--results-dir", "{}"),
        ("--data-dir", "{}"),
        ("--recipe-dir", "{}"),
        ("--config", "{}"),
        ("--benchmark-params", '{"path": "{}"}'),
        ("--model-params", "@{}"),
    ],
    ids=lambda flags: flags[0],
)
def test_a_path_that_is_too_long_is_a_mistake_of_the_user(program, flags, path):
    arguments = RUN[:4] if flags[0] == "--benchmark-params" else RUN
    done = program(*arguments, *(flag.replace("{}", path) for flag in flags))
    message = told(done, 2)
    assert "too long" in message
    assert "WARNING" not in message
    assert [entry.name for entry in program.folder.iterdir()] == ["tasks.jsonl"]


@pytest.mark.parametrize("path", [LONG_NAME, LONG_PATH], ids=["name", "path"])
@pytest.mark.parametrize(
    ("command", "code"), [(("summary",), 1), (("env", "list"), 2), (("launch",), 2)]
)
def test_a_path_that_is_too_long_names_nothing(program, command, code, path):
    told(program(*command, path), code)


def test_a_results_directory_whose_files_have_too_long_paths_is_not_ready(program):
    room = 4085 - len(f"{program.folder}/")
    almost = f"{program.folder}/{'abcdefghi/' * (room // 10)}"
    assert "too long" in told(program(*RUN, "--results-dir", almost), 3)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_home_that_is_no_directory_takes_no_completion(program, shell):
    message = told(program("completion", shell, "--install", HOME="/dev/null"), 1)
    assert "cannot be installed" in message
    assert f"agentcompass completion {shell}" in message


def test_names_cannot_eat_what_stands_beside_them(program):
    tasks = [
        {"id": f"t{n}", "prompt": "?", "answer": "x", "category": category}
        for n, category in enumerate(["c\x1b", "d\x1b[", "plain", "two\nlines"])
    ]
    (program.folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    done = program("run", "jsonl", "oracle", "one\ntwo", *RUN[4:])
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first == "one two_jsonl_oracle: completed"
    at = rest.index("by category:")
    assert rest[at + 1 : at + 5] == [
        f"  {name:<9}  1.000 [0.207, 1.000]  1 task" for name in ("c", "d", "plain", "two lines")
    ]


def test_an_error_before_the_first_attempt_is_said_once(program):
    (program.folder / "tasks.jsonl").write_text('{"id": "a"}\n')
    done = program(*RUN)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "n/a" not in done.stderr
    assert "coverage" not in done.stderr
    assert all(line.startswith(("error: ", "tasks.jsonl:1: ")) for line in done.stderr.splitlines())


def test_in_a_launch_it_is_said_once_too(program):
    (program.folder / "bad.jsonl").write_text('{"id": 1, "prompt": "?", "awnser": "x"}\n')
    (program.folder / "both.yaml").write_text(
        "defaults: {harness: {id: oracle}, model: {id: none}}\n"
        "requests:\n- {name: good, benchmark: {id: jsonl, path: tasks.jsonl}}\n"
        "- {name: bad, benchmark: {id: jsonl, path: bad.jsonl}}\n"
    )
    done = program("launch", "both.yaml")
    assert done.returncode == 1
    assert done.stderr.count("awnser") == 1
    assert "n/a" not in done.stderr


def test_a_category_that_stands_for_none_is_refused(program):
    task = {"id": "a", "prompt": "hi", "answer": "x", "category": "(none)"}
    (program.folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    message = told(program(*RUN), 2)
    assert "tasks.jsonl:1: category: '(none)' stands for tasks without one" in message


@pytest.mark.parametrize("key", ["messages", "model", "prompt"])
def test_a_parameter_that_the_harness_sends_itself_is_refused(program, key):
    endpoint = ("--model-base-url", "http://127.0.0.1:9/v1")
    arguments = ("run", "jsonl", "openai_chat", "m", *RUN[4:], *endpoint)
    message = told(program(*arguments, "--model-params", json.dumps({key: "x"})), 2)
    assert f"--model-params: {key}: is sent by the harness itself" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--k", "99999999999999999999"), "'99999999999999999999' is too large a number"),
        (("--k", "10001"), "must be at most 10000"),
        (("--k", "1.5"), "'1.5' is not a whole number"),
    ],
)
def test_a_number_is_refused_for_what_is_wrong_with_it(program, arguments, words):
    assert words in told(program(*RUN, *arguments), 2)


def test_an_empty_model_id_is_refused(program):
    message = told(program("run", "jsonl", "oracle", "", *RUN[4:]), 2)
    assert "must not be empty" in message
