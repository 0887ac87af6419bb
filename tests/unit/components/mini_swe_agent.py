"""The real agent of the package mini-swe-agent with our model, over HTTP, and our sandboxes. Run by test_mini_swe_agent.py."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome, SandboxPlan, Session, TaskInput
from agentcompass.components.harnesses.mini_swe_agent import crossing
from agentcompass.components.messages import Message
from agentcompass.errors import ConfigurationError, InfraError, ModelError, SandboxError
from agentcompass.testing import FakeEndpoint, chat, error, message, response
from support.components import make, open_session
from support.docker import busybox_image, engine_host, python_image
from support.docker_sandboxes import docker_sandbox
from support.mini_swe_agent import (
    DONE,
    TOLD,
    Kept,
    MiniSweAgent,
    agents_at_work,
    attempt,
    bash,
    own_trajectory,
    ready,
    says,
    submits,
)
from support.opened import Opened
from support.requests import component, model_config, request
from support.scripted import run as run_engine

ALONE = Path(__file__).parents[2] / "support" / "mini_swe_agent_alone.py"
ANSWER = {"config": "answer"}


@pytest.fixture(scope="module", autouse=True)
def images():
    """Made before a test runs on trio."""
    return python_image(), busybox_image()


# --- what is asked, and what is told


async def test_the_requests_are_those_that_the_package_makes_by_itself(tmp_path):
    script = [
        says("echo out; echo err >&2", "exit 3"),
        chat("no call at all"),
        chat(None, tool_calls=[("python", "{}")]),
        says("echo so far; sleep 30", "seq 1 5000", "printf '\\377\\376'", "echo $PAGER; pwd | wc -l"),
        chat("hm", reasoning="because", tool_calls=[bash("true")]),
        chat("torn", tool_calls=[("bash", '{"command": "l')]),
        says("echo no", f"{DONE}; false"),
        submits("a\nb"),
    ]  # fmt: skip
    ours = await attempt(tmp_path, *script, command_timeout_seconds=2)
    (tmp_path / "alone").mkdir()
    with FakeEndpoint(script) as endpoint:
        alone = await trio.run_process(
            [sys.executable, "-P", ALONE, endpoint.base_url, tmp_path / "alone", "2", "swebench"],
            capture_stdout=True,
            capture_stderr=True,
        )
        theirs = [seen.json for seen in endpoint.requests]
    assert ours.asked == theirs
    told = json.loads(alone.stderr.splitlines()[-1])
    assert ours.outcome == AgentOutcome(answer="a\nb", details={"exit_status": "Submitted"})
    assert told["info"] == {"exit_status": "Submitted", "submission": "a\nb"}
    # of its own record, all but the raw response is the same
    kept = [
        {key: value for key, value in each["extra"].items() if key not in {"response", "timestamp", "cost"}}
        for side in (ours.own["messages"], told["messages"])
        for each in side
        if "extra" in each
    ]  # fmt: skip
    assert kept[: len(kept) // 2] == kept[len(kept) // 2 :]


@pytest.mark.parametrize("environment", ["host_process", "docker"])
async def test_a_task_is_solved_by_real_edits(tmp_path, environment):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        json.dumps({"id": "t", "prompt": "Make add add.", "command": "python3 -c 'import m; assert m.add(2, 3) == 5'"})
        + "\n"
    )  # fmt: skip
    benchmark = component("benchmark", "jsonl", path=tasks, evaluate_in="reuse")
    script = [
        says("printf 'def add(a, b):\\n    return a - b\\n' > m.py", "cat m.py"),
        says("sed -i 's/a - b/a + b/' m.py && cat m.py"),
        submits("it adds now"),
    ]
    with FakeEndpoint(script) as endpoint:
        made = request(
            attrs.evolve(benchmark, written={"path": str(tasks), "evaluate_in": "reuse"}),
            component("harness", "mini_swe_agent"),
            sandboxes(environment),
            model=model_config(base_url=endpoint.base_url),
        )
        ran = await run_engine(tmp_path, made)
        assert endpoint.requests[0].json["tools"][0]["function"]["name"] == "bash"
    record = ran.record()
    assert (record.verdict, record.metrics, record.failure) == ("graded", {"correct": 1.0}, None)
    assert (record.answer, record.stopped_by) == ("it adds now", None)
    assert record.details["exit_status"] == "Submitted"
    assert (record.usage.calls, ran.leases()) == (3, [])
    (file,) = ran.run_dir().glob("tasks/*/*/trajectory.jsonl")
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = ["message"] * 2 + ["reply", "tool", "tool", "reply", "tool", "reply", "tool", "final"]
    assert [step["type"] for step in recorded] == kinds
    assert "return a + b" in recorded[6]["output"]
    assert own_trajectory(ran.run_dir())["info"]["submission"] == "it adds now"


def sandboxes(environment):
    if environment == "host_process":
        return None
    return component(
        "environment", "docker", host=engine_host(), image=python_image(), network="none"
    )


async def test_the_answer_of_a_task_is_what_is_submitted(tmp_path):
    solution = "def strlen(string: str) -> int:\n    return len(string)\n"
    script = [says(f"cat > answer.txt <<'E'\n{solution}E"), says(f"{DONE} && cat answer.txt")]
    with FakeEndpoint(script) as endpoint:
        made = request(
            component("benchmark", "humaneval", sample_ids=("HumanEval/23",)),
            component("harness", "mini_swe_agent", **ANSWER),
            model=model_config(base_url=endpoint.base_url),
        )
        ran = await run_engine(tmp_path, made)
        first = endpoint.requests[0].json["messages"]
    assert "def strlen" in first[1]["content"]
    assert "git" not in first[1]["content"]
    assert (ran.record().metrics, ran.record().answer) == ({"pass": 1.0}, solution)


async def test_the_trajectory_says_what_the_model_was_told_word_for_word(tmp_path):
    done = await attempt(tmp_path, says("echo hi", "exit 3"), chat("no call"), submits("x"))
    assert [step["type"] for step in done.steps] == [
        "message", "message", "reply", "tool", "tool", "reply", "message", "reply", "tool", "final",
    ]  # fmt: skip
    told = [each["content"] for each in done.asked[-1]["messages"]]
    system, user, mistake = done.of("message")
    assert [system["content"], user["content"], mistake["content"]] == [told[0], told[1], told[5]]
    assert done.outputs == [*told[3:5], f"{DONE.partition(' ')[2]}\nx"]
    first, second, _ = done.of("tool")
    assert first.pop("seconds") >= 0
    assert first == {
        "type": "tool", "turn": 1, "tool_call_id": "call-0", "name": "bash", "output": told[3], "exit_code": 0,
        "timed_out": False, "truncated": False, "error": None,
    }  # fmt: skip
    assert (second["exit_code"], second["tool_call_id"]) == (3, "call-1")
    assert [step["turn"] for step in done.of("reply")] == [1, 2, 3]
    (final,) = done.of("final")
    assert (final["answer"], final["turns"], final["usage"]["calls"]) == ("x", 3, 3)


@pytest.mark.parametrize("protocol", ["openai-responses", "anthropic"])
async def test_it_works_by_every_protocol_with_parallel_calls_and_thoughts(tmp_path, protocol):
    def reply(*commands, thought=None):
        if protocol == "anthropic":
            calls = [("bash", {"command": command}) for command in commands]
            return message("", tool_calls=calls, thinking=thought)
        return response("", tool_calls=[bash(command) for command in commands], reasoning=thought)

    script = [reply("echo $((6 * 7)) > a", "cat a", thought="hm"), reply(f"{DONE}; cat a")]
    done = await attempt(tmp_path, *script, protocol=protocol)
    assert done.outcome.answer == "42\n"
    assert "<output>\n42\n</output>" in done.outputs[1]
    again = json.dumps(done.asked[1])
    if protocol == "anthropic":
        assert '"signature": "signed"' in again
        last = done.asked[1]["messages"][-1]["content"][-1]
        assert last["content"][0]["cache_control"] == {"type": "ephemeral"}
        assert again.count("cache_control") == 1
        assert "parallel_tool_calls" not in again
    else:
        assert '"opaque"' in again
        assert done.asked[1]["parallel_tool_calls"] is True
        assert "cache_control" not in again


async def test_several_calls_can_be_forbidden_in_the_words_of_each_protocol(tmp_path):
    one = {"config": {"model": {"model_kwargs": {"parallel_tool_calls": False}}}}
    chats = await attempt(tmp_path, submits(), **one)
    assert chats.asked[0]["parallel_tool_calls"] is False
    said = message("", tool_calls=[("bash", {"command": DONE})])
    messages = await attempt(tmp_path, said, protocol="anthropic", **one)
    assert messages.asked[0]["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


# --- how it ends


@pytest.mark.parametrize(
    ("reply", "stopped_by"),
    [
        (chat("no call"), "format_errors"),
        (chat("cut o", finish_reason="length"), "max_tokens"),
        (chat("", usage=None), "format_errors"),
        (chat("I won't", finish_reason="content_filter"), "content_filter"),
    ],
    ids=["text", "cut off", "empty", "filtered"],
)
async def test_replies_without_a_call_are_explained_and_end_it_after_the_third(
    tmp_path, reply, stopped_by
):
    done = await attempt(tmp_path, reply)
    assert (done.outcome.answer, done.outcome.stopped_by) == (None, stopped_by)
    assert done.outcome.details == {"exit_status": "RepeatedFormatError"}
    assert len(done.asked) == 3
    assert [each["role"] for each in done.asked[-1]["messages"]] == ["system"] + ["user"] * 3
    words = "output token limit" if stopped_by == "max_tokens" else "No tool calls found"
    assert words in done.asked[-1]["messages"][-1]["content"]


async def test_it_recovers_from_mistakes(tmp_path):
    done = await attempt(
        tmp_path, chat("no call"), chat(None, tool_calls=[("bash", "[1]")]), says("true"),
        chat(None, tool_calls=[("bash", '{"command": 5}')]), submits("recovered"),
    )  # fmt: skip
    assert done.outcome.answer == "recovered"
    assert "it is no text but int" in done.outputs[1]
    assert done.of("tool")[1]["error"] == "bad-arguments"


async def test_a_step_limit_stops_it(tmp_path):
    done = await attempt(tmp_path, says("echo again"), step_limit=2)
    assert (done.outcome.answer, done.outcome.stopped_by) == (None, "max_turns")
    assert (len(done.asked), done.of("final")[0]["turns"]) == (2, 2)
    assert done.own["info"]["exit_status"] == "LimitsExceeded"


async def test_a_cost_limit_stops_it_where_the_price_is_known(tmp_path):
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    prices = {"org/model": {"input": 1.0, "output": 1.0}}
    done = await attempt(
        tmp_path, chat("no call, but paid for", usage=usage), says("true", usage=usage), prices=prices, cost_limit=1.5
    )  # fmt: skip
    assert (done.outcome.stopped_by, len(done.asked)) == ("budget", 2)
    assert done.own["info"]["model_stats"] == {"instance_cost": 2.0, "api_calls": 2}


async def test_without_a_known_price_it_goes_on_and_says_so_once(tmp_path, caplog):
    harness = await ready(cost_limit=0.000001)
    with FakeEndpoint(lambda _seen: submits()) as endpoint, caplog.at_level(logging.WARNING):
        async with (
            Opened(endpoint, prices={}) as opened,
            open_session(tmp_path, {"root": str(tmp_path)}) as session,
        ):
            for number in range(2):
                kept = Kept(tmp_path / str(number))
                outcome = await harness.run(TOLD, session, opened.model, kept)
                assert outcome.answer == "done"
    said = [each.getMessage() for each in caplog.records if each.name.startswith("agentcompass")]
    assert len(said) == 1
    assert "the price of model 'org/model' is not known" in said[0]


async def test_no_limits_are_limits_of_zero(tmp_path):
    usage = {"prompt_tokens": 10_000_000, "completion_tokens": 0}
    script = [says("true", usage=usage)] * 3 + [submits()]
    done = await attempt(tmp_path, *script, cost_limit=0, step_limit=0)
    assert done.outcome.answer == "done"


async def test_a_conversation_too_long_for_the_model_is_graded_on_what_is_left(tmp_path):
    too_long = error(400, "too long", code="context_length_exceeded")
    done = await attempt(tmp_path, says("echo 1 > f"), too_long)
    assert (done.outcome.answer, done.outcome.stopped_by) == (None, "context")
    assert [step["type"] for step in done.steps[-2:]] == ["error", "final"]
    assert done.own["info"]["exit_status"] == "EndpointError"


async def test_an_endpoint_that_fails_is_no_exit_of_the_agent(tmp_path):
    with pytest.raises(ModelError) as caught:
        await attempt(tmp_path, says("true"), error(401, "no such key", code="invalid_api_key"))
    assert (caught.value.code, caught.value.retryable) == ("unauthorized", False)
    assert own_trajectory(tmp_path)["info"]["model_stats"]["api_calls"] == 2


class Broken(Session):
    """A sandbox whose container dies at the agent's second command."""

    workdir = "/"

    def __init__(self, session):
        self.session, self.count = session, 0

    async def exec(self, command, **options):
        self.count += 1
        if self.count == 3:
            raise SandboxError("the container died", code="container-died")
        return await self.session.exec(command, **options)

    process = read_bytes = write_bytes = upload = download = end_processes = exec


async def test_a_sandbox_that_fails_is_no_exit_of_the_agent(tmp_path):
    async with open_session(tmp_path, {"root": str(tmp_path)}) as session:
        with pytest.raises(SandboxError) as caught:
            await attempt(tmp_path, says("true", "true"), session=Broken(session))
    assert caught.value.code == "container-died"


async def test_without_a_sandbox_there_is_no_attempt(tmp_path):
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await make(MiniSweAgent).run(TOLD, None, None, None)


async def test_a_task_with_an_image_is_refused(tmp_path):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    told = TaskInput(messages=(Message(role="user", content=(picture,)),))
    with pytest.raises(InfraError) as caught:
        await attempt(tmp_path, submits(), told=told)
    assert (caught.value.code, caught.value.retryable) == ("unsupported-input", False)


# --- what a model can do


async def test_forty_megabytes_of_output_are_cut_as_its_template_says(tmp_path):
    done = await attempt(tmp_path, says("head -c 40000000 /dev/zero | tr '\\0' x"), submits())
    told = done.asked[1]["messages"][-1]["content"]
    assert len(told) < 11_000
    assert "<output_head>" in told
    assert done.of("tool")[0]["truncated"] is True
    assert len(json.dumps(done.own)) < 200_000


async def test_a_submission_is_whole_up_to_four_megabytes(tmp_path):
    done = await attempt(tmp_path, says(f"{DONE}; head -c 3000000 /dev/zero | tr '\\0' x"))
    assert len(done.outcome.answer) == 3_000_000
    assert len(done.outputs[0]) < 100_000
    done = await attempt(tmp_path, says(f"{DONE}; head -c 5000000 /dev/zero | tr '\\0' x"))
    assert done.outcome.details["submission_truncated"] is True


async def test_a_thousand_calls_in_one_reply_are_done_in_order(tmp_path):
    async with open_session(tmp_path, {"root": str(tmp_path)}) as session:
        commands = [f"echo {number} >> log" for number in range(100)]
        done = await attempt(tmp_path, says(*commands), says(f"{DONE}; cat log"), session=session)
    assert done.outcome.answer.split() == [str(number) for number in range(100)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("printf '\\377\\376 caf\\303\\251'", "�� café"),
        ("echo '\ud800'", "�"),
        ("echo a\0b", "NUL character"),
        ("", "<returncode>0</returncode>"),
        ("kill -9 $$", "<returncode>137</returncode>"),
        ("cat", "<returncode>0</returncode>"),
        ("no-such-command", "<returncode>127</returncode>"),
        ("echo '{{ 7 * 7 }}{% raw %}'", "{{ 7 * 7 }}{% raw %}"),
    ],
    ids=["bytes", "surrogate", "nul", "empty", "killed", "stdin", "missing", "template"],
)
async def test_whatever_a_command_is_the_model_is_told_what_came_of_it(tmp_path, command, words):
    done = await attempt(tmp_path, says(command), submits())
    assert words in done.outputs[0]
    assert done.outcome.answer == "done"


async def test_what_a_command_printed_before_its_time_was_over_is_told(tmp_path):
    done = await attempt(
        tmp_path, says("echo so far; sleep 1000"), submits(), command_timeout_seconds=0.5
    )
    assert "Command 'echo so far; sleep 1000' timed out after 0.5 seconds" in done.outputs[0]
    assert "so far\n</output>" in done.outputs[0]
    assert (done.of("tool")[0]["exit_code"], done.of("tool")[0]["timed_out"]) == (124, True)


# --- where commands run


async def test_commands_get_the_variables_of_the_configuration_and_the_sandboxes_directory(
    tmp_path,
):
    done = await attempt(
        tmp_path, says("echo $PAGER $TQDM_DISABLE; pwd; echo ${BASH_ENV-none}"), submits()
    )
    _, _, first, directory, third, *_ = done.outputs[0].splitlines()
    assert (first, third) == ("cat 1", "none")
    assert directory.startswith(str(tmp_path))


async def test_in_an_image_of_swe_bench_its_shell_starts_as_the_image_wants(tmp_path):
    async with docker_sandbox(SandboxPlan(workdir="/testbed")) as session:
        await session.write_bytes("/root/.bashrc", b"export CONDA=testbed\n")
        done = await attempt(tmp_path, says("echo $CONDA; pwd"), submits(), session=session)
        assert "\ntestbed\n/testbed\n" in done.outputs[0]
        await session.exec(["rm", "/root/.bashrc"])
        done = await attempt(tmp_path, says("echo ${BASH_ENV-none}"), submits(), session=session)
        assert "\nnone\n" in done.outputs[0]


async def test_a_configuration_of_the_users_says_where_and_how_commands_run(tmp_path):
    place = {"cwd": "/tmp", "env": {"X": "1"}, "interpreter": ["sh", "-ec"], "timeout": 9}
    done = await attempt(
        tmp_path, says("pwd; echo $X $PAGER $0"), submits(), config={"environment": place}
    )
    assert "\n/tmp\n1 cat sh\n" in done.outputs[0]


async def test_a_sandbox_without_its_shell_is_told_before_the_model_is_asked(tmp_path):
    async with docker_sandbox(image=busybox_image()) as session:
        with pytest.raises(SandboxError, match="has no 'bash'") as caught:
            await attempt(tmp_path, submits(), session=session)
        assert (caught.value.code, caught.value.retryable) == ("interpreter-missing", False)
        done = await attempt(
            tmp_path,
            submits(),
            session=session,
            config={"environment": {"interpreter": ["sh", "-c"]}},
        )
    assert done.outcome.answer == "done"


async def test_a_directory_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SandboxError, match="no command can be run in /no/such") as caught:
        await attempt(tmp_path, submits(), config={"environment": {"cwd": "/no/such"}})
    assert caught.value.code == "no-shell"


async def test_its_general_configuration_knows_the_sandboxes_system(tmp_path):
    done = await attempt(tmp_path, says("uname -r"), submits(), config="mini")
    release = json.loads(done.outputs[0])["output"].strip()
    assert release in done.asked[0]["messages"][1]["content"]
    assert "Please solve this issue: Fix it." in done.asked[0]["messages"][1]["content"]


# --- what a user can do wrong


async def test_a_file_changes_what_it_says_and_nothing_else(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "agent: {system_template: 'Hello {{cwd}}', step_limit: 1, mode: yolo}\n"
        "environment: {environment_class: docker, env: {MINE: off}}\n"
        "model: {model_name: x, model_kwargs: {drop_params: true}}\n"
    )
    done = await attempt(tmp_path, says("echo $MINE $PAGER"), config=str(file))
    assert done.outcome.stopped_by == "max_turns"
    assert done.asked[0]["messages"][0]["content"].startswith(f"Hello {tmp_path}")
    assert "\noff cat\n" in done.outputs[0]
    assert "git diff" in done.asked[0]["messages"][1]["content"]


async def test_parameters_count_more_than_a_configuration(tmp_path):
    done = await attempt(
        tmp_path, says("true"), config={"agent": {"step_limit": 5, "cost_limit": 9}}, step_limit=1
    )
    assert (done.outcome.stopped_by, len(done.asked)) == ("max_turns", 1)


def test_what_stands_in_a_file_is_part_of_the_fingerprint(tmp_path):
    file = tmp_path / "mine.yaml"
    versions = set()
    for text in ("agent: {step_limit: 1}", "agent: {step_limit: 2}"):
        file.write_text(text)
        versions.add(make(MiniSweAgent, config=str(file)).version)
    assert len(versions | {MiniSweAgent.version}) == 3


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("swebenhc", r"no configuration 'swebenhc' \(did you mean 'swebench'\?\)"),
        ("swebench_xml", "no configuration 'swebench_xml'"),
        ("./no-such.yaml", "no-such.yaml of mini_swe_agent cannot be read: No such file"),
        ({"agnet": {}}, "agnet: unknown key"),
        ({"agent": {"step_limits": 3}}, r"step_limits: unknown key \(did you mean 'step_limit'\?\)"),
        ({"agent": {"step_limit": -1}}, "step_limit: must be at least 0, not -1"),
        ({"agent": {"step_limit": "many"}}, "must be an integer"),
        ({"model": {"model_kwargs": {"temperature": 1}}}, "temperature: unknown key"),
        ({"environment": {"timeout": 0}}, "timeout: must be above 0"),
        ({"environment": {"interpreter": []}}, "config.environment.interpreter: must name a program"),
        ({"environment": {"env": {"A=B": "1"}}}, r"config.environment.env\['A=B'\]: is no name of a variable"),
        (["swebench"], "config: must be a mapping, not a list"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_told_before_anything_runs(config, words):
    with pytest.raises(ConfigurationError, match=words):
        make(MiniSweAgent, config=config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agent: {step_limit: x}", "mine.yaml:1:21.*step_limit: must be an integer"),
        ("agent: {no_such: 1}", "mine.yaml:1:9.*no_such: unknown key"),
        ("run: {env_startup_command: x}", "run: unknown key"),
        ("agent: [", "mine.yaml"),
        ("- 1", "must be a mapping"),
        ("agent: 3", "agent: must be a mapping"),
    ],
)
async def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path, text, words):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        await ready(config=str(file))


@pytest.mark.parametrize(
    ("section", "template", "words"),
    [
        ("agent", {"system_template": "{{ x"}, "system_template .*TemplateSyntaxError"),
        ("agent", {"instance_template": "{{ no_such }}"}, "instance_template .*'no_such' is undefined"),
        ("model", {"observation_template": "{{ output.output / 0 }}"}, "observation_template .*TypeError"),
        ("model", {"observation_template": "{% if output.exception_info %}{{ x }}{% endif %}"}, "'x' is undefined"),
        ("model", {"format_error_template": "{{ 1 / 0 }}"}, "format_error_template .*ZeroDivisionError"),
    ],
)  # fmt: skip
async def test_a_template_that_fails_is_told_before_anything_runs(section, template, words):
    with pytest.raises(ConfigurationError, match=words):
        await ready(config={section: template})


async def test_a_template_that_fails_only_later_is_the_users_and_not_the_models(tmp_path):
    wrong = "{% if output.output == 'late\\n' %}{{ no_such }}{% endif %}"
    with pytest.raises(InfraError, match="'no_such' is undefined") as caught:
        await attempt(
            tmp_path, says("echo late"), config={"model": {"observation_template": wrong}}
        )
    assert (caught.value.code, caught.value.retryable) == ("bad-template", False)


async def test_a_template_without_end_is_told(monkeypatch):
    monkeypatch.setattr(
        "agentcompass.components.harnesses.mini_swe_agent.harness.REHEARSAL_SECONDS", 0.3
    )
    slow = "{% for a in range(30000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}"
    with pytest.raises(ConfigurationError, match="were not rendered within"):
        await ready(config={"agent": {"system_template": slow}})


# --- cancellation


async def test_an_agent_that_swallows_its_cancellation_gets_no_further():
    refused = 0

    def stubborn():
        nonlocal refused
        for _ in range(5):
            try:
                crossing.call(trio.sleep_forever)
            except BaseException:
                refused += 1
        return "as if nothing had happened"

    with trio.move_on_after(0.05):
        await crossing.in_thread(stubborn, crossing.threads(), "stubborn")
    assert refused == 5


@pytest.mark.parametrize("environment", ["host_process", "docker"])
@pytest.mark.parametrize("busy_with", ["a command", "a request"])
async def test_cancelled_it_ends_at_once_and_leaves_nothing(tmp_path, environment, busy_with):
    nap = f"sleep {1000 + random.random()}"

    def react(seen):
        if busy_with == "a request":
            return submits().but(delay_seconds=1000)
        return says(nap)

    async def cancel(control):
        if busy_with == "a request":
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
        while busy_with == "a command" and not running(nap):
            await trio.sleep(0.02)
        assert agents_at_work() == [MiniSweAgent.id]
        control.request_cancel("sigint")

    with FakeEndpoint(react) as endpoint:
        made = request(
            component("benchmark", "humaneval", sample_ids=("HumanEval/23",)),
            component("harness", "mini_swe_agent"),
            sandboxes(environment),
            model=model_config(base_url=endpoint.base_url, max_retries=0),
        )
        ran = await run_engine(tmp_path, made, beside=cancel, grace=20.0)
    record = ran.record()
    assert (record.verdict, record.failure.phase) == ("cancelled", "run")
    assert (agents_at_work(), ran.leases(), running(nap)) == ([], [], False)
    roles = [message["role"] for message in own_trajectory(ran.run_dir())["messages"]]
    assert roles == ["system", "user"] + ["assistant"] * (busy_with == "a command")


def running(command):
    """Whether a process runs this command, in a container or not."""
    wanted = "\0".join([*command.split(), ""]).encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                return True
    return False


async def test_a_deadline_ends_it_and_what_it_left_is_graded(tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "t", "prompt": "Make f.", "command": "test -e f"}) + "\n")
    benchmark = component("benchmark", "jsonl", path=tasks, evaluate_in="reuse")
    with FakeEndpoint([says("touch f"), says("sleep 1000")]) as endpoint:
        made = request(
            attrs.evolve(benchmark, written={"path": str(tasks), "evaluate_in": "reuse"}),
            component("harness", "mini_swe_agent"),
            model=model_config(base_url=endpoint.base_url),
            run_timeout_seconds=2.0,
        )
        ran = await run_engine(tmp_path, made)
    assert (ran.record().metrics, ran.record().stopped_by) == ({"correct": 1.0}, "timeout")
    assert agents_at_work() == []


async def test_a_hundred_agents_work_at_once(tmp_path):
    harness = await ready()
    count = 100
    with FakeEndpoint(lambda _seen: submits()) as endpoint:
        async with open_session(tmp_path, {"root": str(tmp_path)}) as session:
            gathered, most = trio.Event(), 0

            class Gathering(Broken):
                async def exec(self, command, **options):
                    nonlocal most
                    if "uname" in command[2]:
                        return await session.exec(command, **options)
                    most += 1
                    if most == count:
                        gathered.set()
                    await gathered.wait()
                    return await session.exec(["echo", DONE.partition(" ")[2]])

            async with (
                Opened(endpoint, max_connections=count) as opened,
                trio.open_nursery() as nursery,
            ):
                for number in range(count):
                    kept = Kept(tmp_path / f"kept-{number}")
                    nursery.start_soon(harness.run, TOLD, Gathering(session), opened.model, kept)
    assert most == count


# --- the package


def test_importing_the_package_leaves_no_trace(tmp_path):
    code = """
        import logging, os, sys, threading
        before = dict(os.environ)
        from agentcompass.components.harnesses.mini_swe_agent import package
        package.load()
        assert dict(os.environ) == before
        assert logging.getLogger("minisweagent").handlers == []
        assert [name for name in sys.modules if name.partition(".")[0] in {"litellm", "openai", "datasets"}] == []
    """
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "import textwrap; exec(textwrap.dedent(" + repr(code) + "))"],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "MSWEA_GLOBAL_COST_LIMIT": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []
