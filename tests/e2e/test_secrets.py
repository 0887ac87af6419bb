"""A secret reaches the endpoint and nothing else, whichever door it came in by."""

import base64
import json

import pytest

from agentcompass.testing import FakeEndpoint, chat, echo_key, error
from support.commandline import Program

KEY = 'sk-very/secret+key="1"-0123456789'
PLAIN_KEY = "sk-plainkey-0123456789abcdef"
BENCHMARK = ("--benchmark-params", '{"path": "tasks.jsonl"}')
TASKS = [{"id": "a", "prompt": "hi", "answer": "hello"}]


@pytest.fixture
def program(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASKS[0]) + "\n")
    return Program(tmp_path)


def options(*more):
    benchmark = () if "--benchmark-params" in more else BENCHMARK
    settings = ("--max-retries", "0", "--log-level", "DEBUG")
    return ("run", "jsonl", "openai_chat", "m", *benchmark, *settings, *more)


def assert_nowhere(program, done, *secrets):
    """No file of the folder and no output has a secret in any encoding that such things travel in."""
    forms = set()
    for secret in secrets:
        forms |= {
            secret,
            json.dumps(secret)[1:-1],
            base64.b64encode(secret.encode()).decode().rstrip("="),
        }
    seen = {"stdout": done.stdout, "stderr": done.stderr}
    results = program.folder / "results"
    for path in [*results.rglob("*")]:
        if path.is_file():
            seen[str(path)] = path.read_text(errors="replace")
        seen[f"name of {path}"] = path.name
    for place, text in seen.items():
        for form in forms:
            assert form not in text, place
    assert (results.exists()) == bool(list(results.rglob("run.json")))


def leaky(seen):
    """Behaviour: repeats the key in an error."""
    return error(400, f"bad request from {seen.headers.get('authorization')} to {seen.target}")


def chatty(seen):
    """Behaviour: repeats the key in the answer."""
    return chat(f"hello, your key is {seen.headers.get('authorization')}")


@pytest.mark.parametrize("behaviour", [echo_key, leaky, chatty])
@pytest.mark.parametrize("door", ["flag", "variable", "config file", "reference in a flag"])
def test_a_key_is_in_no_file_and_no_output(program, behaviour, door):
    with FakeEndpoint(behaviour) as endpoint:
        base = ("--model-base-url", endpoint.base_url)
        environ = {}
        if door == "flag":
            more = (*base, "--model-api-key", PLAIN_KEY)
        elif door == "variable":
            environ = {"THE_KEY": PLAIN_KEY}
            more = (*base, "--model-api-key", "${THE_KEY}")
        elif door == "config file":
            (program.folder / "extra.yaml").write_text(
                f"environments:\n  host_process:\n    env_variables: {{SERVICE_TOKEN: '{PLAIN_KEY}'}}\n"
            )
            more = (*base, "--model-api-key", PLAIN_KEY, "--config", "extra.yaml")
        else:
            environ = {"FIRST": PLAIN_KEY[:9], "SECOND": PLAIN_KEY[9:]}
            more = (*base, "--model-api-key", "${FIRST}${SECOND}")
        done = program(*options(*more), **environ)
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {PLAIN_KEY}"
    assert_nowhere(program, done, PLAIN_KEY)
    (run_file,) = (program.folder / "results").rglob("run.json")
    if door == "variable":
        assert "${THE_KEY}" in run_file.read_text()


@pytest.mark.parametrize("behaviour", [leaky, chatty])
def test_the_password_in_a_url_is_in_no_file_and_no_output(program, behaviour):
    with FakeEndpoint(behaviour) as endpoint:
        url = endpoint.base_url.replace("http://", "http://someone:pass-word-12345@")
        done = program(*options("--model-base-url", url))
        sent = endpoint.requests[0].headers["authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"someone:pass-word-12345"
    assert_nowhere(program, done, "pass-word-12345", sent.removeprefix("Basic "))


def test_a_key_in_a_header_parameter_is_no_exception(program):
    with FakeEndpoint(echo_key) as endpoint:
        done = program(
            *options("--model-base-url", endpoint.base_url, "--model-api-key", KEY.replace('"', ""))
        )
    assert_nowhere(program, done, KEY.replace('"', ""))


VALUE = "value-of-k+0123456789"
PROMPT = '{"path": "tasks.jsonl", "system_prompt": "${K}"}'
REFERENCES = {
    "the query of the URL": ("--model-base-url", "{url}?api-key=${K}"),
    "the query of the URL in a variable": ("--model-base-url", "${URL}"),
    "a password": ("--model-base-url", "{userinfo}"),
    "a model parameter": ("--model-params", '{"user": "${K}"}'),
    "deep in a model parameter": ("--model-params", '{"a": [{"b": "x ${K}"}]}'),
    "a system prompt": ("--benchmark-params", PROMPT),
    "a harness parameter": ("--harness-params", '{"system_prompt": "see ${K}"}'),
    "an environment variable": ("--env-params", '{"env_variables": {"A": "${K}"}}'),
    "a pattern": ("--retry-pattern-list", '["${K}"]'),
}


@pytest.mark.parametrize("place", REFERENCES)
def test_what_was_given_by_reference_is_written_as_the_reference(program, place):
    flag, given = REFERENCES[place]
    with FakeEndpoint(chat("hello")) as endpoint:
        url = endpoint.base_url
        userinfo = url.replace("http://", "http://someone:${K}@")
        given = given.replace("{url}", url).replace("{userinfo}", userinfo)
        base = () if flag == "--model-base-url" else ("--model-base-url", url)
        environ = {"K": VALUE, "URL": f"{url}?sig={VALUE}"}
        more = (*base, flag, given)
        dry = program(*options(*more, "--dry-run"), **environ)
        done = program(*options(*more, "--format", "json"), **environ)
        # somebody who is told the answer may see what was asked, never what was configured
        assert endpoint.requests
    assert done.returncode == 0, done.stderr
    assert dry.returncode == 0, dry.stderr
    reference = "${URL}" if "${URL}" in given else "${K}"
    request = json.dumps(json.loads(done.stdout)["metadata"]["request"])
    for text in (dry.stdout, request):
        assert reference in text
        assert VALUE not in text
    for name in ("run.json", "metrics.json", "summary.md"):
        (file,) = (program.folder / "results").rglob(name)
        assert VALUE not in file.read_text(), name
    if flag == "--model-base-url":
        assert_nowhere(program, done, VALUE)


def test_what_a_launch_was_given_by_reference_is_printed_as_the_reference(program):
    (program.folder / "several.yaml").write_text(
        "runtime: {data_dir: '${K}'}\n"
        "defaults:\n  harness: {id: openai_chat}\n"
        "  model: {id: m, base_url: 'http://127.0.0.1:9/v1?api-key=${K}', params: {user: '${K}'}}\n"
        "requests:\n- {name: a, benchmark: {id: jsonl, path: tasks.jsonl, system_prompt: '${K}'}}\n"
    )
    done = program("launch", "several.yaml", "--dry-run", K=VALUE)
    assert done.returncode == 0, done.stderr
    assert VALUE not in done.stdout + done.stderr
    assert done.stdout.count("${K}") == 4


def test_config_show_prints_every_reference_as_such(program):
    (program.folder / "agentcompass.yaml").write_text(
        "benchmarks: {jsonl: {path: '${K}', system_prompt: 'a ${K} b'}}\n"
        "environments: {host_process: {env_variables: {SERVICE: 'http://h/?sig=in-clear-1'}}}\n"
    )
    for arguments in (
        ("show",),
        ("show", "--format", "json"),
        ("explain", "benchmarks.jsonl.path"),
    ):
        done = program("config", *arguments, K=VALUE)
        assert done.returncode == 0, done.stderr
        assert "${K}" in done.stdout
        assert VALUE not in done.stdout
        assert "in-clear-1" not in done.stdout


def test_a_key_in_the_query_is_masked_whoever_repeats_it(program):
    with FakeEndpoint(leaky) as endpoint:
        done = program(*options("--model-base-url", f"{endpoint.base_url}?api-key={PLAIN_KEY}&v=1"))
        assert endpoint.requests[0].target.endswith(f"?api-key={PLAIN_KEY}&v=1")
    assert_nowhere(program, done, PLAIN_KEY)
    (run_file,) = (program.folder / "results").rglob("run.json")
    assert "?api-key=[secret]&v=1" in run_file.read_text()


def test_a_masked_key_is_not_sent(program):
    with FakeEndpoint(chat("hello")) as endpoint:
        done = program(*options("--model-base-url", f"{endpoint.base_url}?api-key=[secret]"))
        assert len(endpoint.requests) == 0
    assert done.returncode == 2
    assert "Give the secret again" in done.stderr


def test_a_variable_with_another_value_is_another_run(program):
    with FakeEndpoint(chat("hello")) as endpoint:
        more = ("--model-base-url", endpoint.base_url, "--model-api-key", "${THE_KEY}")
        more = ("--benchmark-params", PROMPT, *more)
        program(*options(*more, "--run-id", "first"), K="value-1", THE_KEY=PLAIN_KEY)
        other = program(*options(*more, "--reuse=first"), K="value-2", THE_KEY=PLAIN_KEY)
        same = program(*options(*more, "--reuse=first"), K="value-1", THE_KEY="another-key-456")
        assert len(endpoint.requests) == 1
    assert other.returncode == 2
    assert "${K} (sha256 " in other.stderr
    assert "value-" not in other.stderr
    assert same.returncode == 0, same.stderr


def test_dry_run_and_config_show_print_the_reference_only(program):
    (program.folder / "agentcompass.yaml").write_text(
        "environments:\n  host_process:\n    env_variables: {SERVICE_TOKEN: '${TOKEN}'}\n"
    )
    more = (
        "--model-base-url",
        "http://127.0.0.1:9/v1",
        "--model-api-key",
        "${THE_KEY}",
        "--dry-run",
    )
    environ = {"THE_KEY": PLAIN_KEY, "TOKEN": "tok-0123456789"}
    done = program(*options(*more), **environ)
    assert done.returncode == 0, done.stderr
    assert "${THE_KEY}" in done.stdout
    for text in (done, program("config", "show", **environ)):
        assert PLAIN_KEY not in text.stdout + text.stderr
        assert "tok-0123456789" not in text.stdout + text.stderr
    assert not (program.folder / "results").exists()


def test_fields_that_only_look_like_secrets_are_left_alone(program):
    task = {
        "id": "a", "prompt": "sort_key max_token api_key", "answer": "x", "metadata": {"sort_key": "b", "max_token": "7"},
    }  # fmt: skip
    (program.folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    with FakeEndpoint(chat("the max_token of my api_key is sort_key")) as endpoint:
        done = program(
            *options("--model-base-url", endpoint.base_url, "--model-api-key", PLAIN_KEY)
        )
    assert done.returncode == 0
    (journal,) = (program.folder / "results").rglob("attempts.jsonl")
    assert "the max_token of my api_key is sort_key" in journal.read_text()
