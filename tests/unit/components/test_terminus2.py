"""`terminus2` at work: a scripted endpoint over HTTP, a real tmux, in a workspace of this machine and in a container."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import TaskInput
from agentcompass.components.harnesses.terminus2 import control, prompts
from agentcompass.components.harnesses.terminus2.start import Started
from agentcompass.components.harnesses.terminus2.tmux_bundle import bundled
from agentcompass.components.messages import Message
from agentcompass.errors import ModelError, SandboxError
from agentcompass.testing import chat, error
from support.docker import base_image, engine_host
from support.docker_sandboxes import docker_sandbox
from support.terminus import DONE, PROMPT, TOLD, Script, attempt, busybox_image, plan, workspace

HERE, CONTAINER = "here", "container"


@pytest.fixture(scope="session")
def images():
    """Found or made before any event loop runs."""
    engine_host()
    return {"base": base_image(), "busybox": busybox_image()}


@contextlib.asynccontextmanager
async def sandbox(where, tmp_path, images):
    if where == HERE:
        async with workspace(tmp_path) as session:
            yield session
    else:
        async with docker_sandbox(image=images["base"]) as session:
            yield session


in_both = pytest.mark.parametrize(
    "where", [HERE, pytest.param(CONTAINER, marks=pytest.mark.docker)]
)


def said(done):
    """All that the model was told."""
    return "\n".join(done.told)


# --- what a terminal does


@in_both
async def test_a_task_is_solved_with_files_from_here_documents(where, tmp_path, images):
    body = "\n".join(f"line {n}: 'quotes' \"more\" \\ $HOME `x` ;" for n in range(1500))
    script = [
        (plan((f"cat > out.txt <<'END OF FILE'\n{body}\nEND OF FILE\n", 1)), PROMPT),
        (plan("wc -l < out.txt; echo done-$((1+1))\n"), "done-2"),
    ]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
        assert await session.read_text("out.txt") == body + "\n"
    assert done.outcome.answer == "All is done."
    assert done.outcome.stopped_by is None


@in_both
async def test_control_keys_end_a_program_and_its_input(where, tmp_path, images):
    script = [
        (plan("sleep 1000 && echo slept\n", "C-c"), "^C"),
        (plan("cat > typed\n", "some text\n", "C-d"), PROMPT),
        (plan("echo after-$((20+3)) >> runs; cat runs\n"), "after-23"),
        (plan("Up", "BSpace", "s\n"), "after-23\nafter-23"),
    ]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
        assert await session.read_text("typed") == "some text\n"
    assert "slept\n" not in said(done).replace("echo slept", "")


@in_both
async def test_an_interactive_interpreter_is_talked_to(where, tmp_path, images):
    script = [
        (plan("python3 -q -S\n"), ">>>"),
        (plan("for n in range(3):\n", "    print('n', n * 7)\n\n"), "n 14"),
        (plan("n * 100\n"), "\n200\n"),
        (plan("raise SystemExit\n"), PROMPT),
    ]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
    assert done.outcome.stopped_by is None


@in_both
async def test_a_command_that_outlives_its_wait_is_shown_and_goes_on(where, tmp_path, images):
    command = "echo begun; while [ ! -e go ]; do sleep 0.1; done; echo ended-$((40+2))\n"
    async with sandbox(where, tmp_path, images) as session:
        seen = []

        def behaviour(request):
            seen.append(request.json["messages"][-1]["content"])
            if len(seen) == 1:
                return chat(plan((command, 0.3)))
            if "ended-42" not in seen[-1]:
                return chat(plan(("", 0.2)))
            return chat(DONE)

        async with trio.open_nursery() as nursery:

            async def allow():
                while len(seen) < 3:
                    await trio.sleep(0.05)
                await session.write_text("go", "")

            nursery.start_soon(allow)
            done = await attempt(session, tmp_path, behaviour)
    assert "begun" in seen[1]
    assert "ended-42" not in seen[1]
    assert done.outcome.stopped_by is None


@in_both
async def test_wide_characters_are_typed_and_shown(where, tmp_path, images):
    text = "漢字かな 한국어 Ελληνικά ñ é 🙂"
    script = [(plan(f"echo '{text}' | tee wide; echo x-$((1+1))\n"), "x-2")]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
        assert await session.read_text("wide") == text + "\n"
    assert said(done).count(text) >= 2


@in_both
async def test_of_much_output_both_ends_are_shown(where, tmp_path, images):
    script = [(plan(("seq 40000; echo last-$((1+1))\n", 1.0)), "last-2")]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
    (output, *_rest) = done.outputs
    assert "seq 40000; echo" in output
    assert "\n1\n2\n3\n" in output
    assert "\n39999\n40000\nlast-2\n" in output
    assert "lines left out" in output
    assert len(output.encode()) <= 10_200
    assert done.of("tool")[0]["truncated"]


@in_both
async def test_a_new_look_shows_only_what_is_new(where, tmp_path, images):
    script = [(plan("echo first-$((1+1))\n"), "first-2"), (plan("seq 60\n"), "\n60\n")]
    async with sandbox(where, tmp_path, images) as session:
        done = await attempt(session, tmp_path, script)
    later = next(output for output in done.outputs if "\n60\n" in output)
    assert later.startswith("New on the terminal:\n")
    assert "first-2" not in later
    assert "\n1\n" in later


async def test_keys_are_pressed_exactly(tmp_path):
    keys = "-l ;; \\; #{pane_id} 'a' \"b\" ~ $X %% ^ {x} \t é"
    script = [
        (plan("stty -echo; echo ready-$((1+1)); cat -v > typed\n"), "ready-2"),
        plan(f"{keys}\n", ";", "-H", "#", " ", "\n"),
        plan("Enter", "Space", "x", "Tab", "BSpace", "\n", "C-d"),
        (plan("stty echo; echo over-$((1+1))\n"), "over-2"),
    ]
    async with workspace(tmp_path) as session:
        await attempt(session, tmp_path, script)
        typed = await session.read_bytes("typed")
    assert typed.decode().split("\n")[:3] == [
        keys.replace("é", "M-CM-)"),
        ";-H# ",
        "",
    ]
    assert typed.decode().split("\n")[3:] == [" x", ""]


async def test_control_characters_in_keystrokes_are_pressed(tmp_path):
    script = [
        (plan("sleep 1000\n", "\x03"), "^C"),
        (plan("stty raw -echo; head -c 4 | od -An -tx1; stty sane\n", ("\x00\x01\x1b\x7f", 0.3)), "7f"),
    ]  # fmt: skip
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert "00 01 1b 7f" in said(done)


async def test_the_terminal_has_the_size_and_the_place_that_were_asked_for(tmp_path):
    script = [(plan("stty size; pwd; echo $TERM x-$((1+1))\n"), "x-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script, tmux_pane_width=200, tmux_pane_height=20)
        assert f"20 200\n{session.workdir}\nscreen-256color x-2" in said(done)
    assert (done.recording[0]["width"], done.recording[0]["height"]) == (200, 20)


async def test_a_shell_may_be_none_of_a_login(tmp_path):
    script = [(plan("shopt -q login_shell; echo login-$?\n"), "login-1")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script, login_shell=False)
    assert done.outcome.stopped_by is None


# --- what a model does


async def test_a_reply_that_cannot_be_read_is_corrected(tmp_path):
    script = ['{"analysis": "it said "no"", "commands": []}', (plan("echo ok-$((1+1))\n"), "ok-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert (
        "Nothing was done: your last reply could not be read: the JSON is not valid" in done.told[1]
    )
    assert done.outcome.stopped_by is None


async def test_what_was_odd_about_a_reply_is_said_with_what_came_of_it(tmp_path):
    script = [(f"Sure:\n{plan('echo ok-$((1+1))' + chr(10))}", "ok-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert "- there is text before the JSON object" in done.told[1]
    assert "echo ok-$" in done.told[1]


async def test_a_reply_that_was_cut_off_is_not_followed(tmp_path):
    cut = chat(plan("touch cut\n")[:-3], finish_reason="length")
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, [cut])
        assert not await session.exists("cut")
    assert "was cut off" in done.told[1]


async def test_a_whole_reply_is_followed_even_if_it_was_cut_off_after_it(tmp_path):
    cut = chat(plan("echo ok-$((1+1))\n") + " And", finish_reason="length")
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, [(cut, "ok-2")])
    assert "ok-2" in said(done)


async def test_completion_is_asked_about_and_can_be_taken_back(tmp_path):
    replies = [DONE, plan("echo more\n"), DONE, plan("touch last\n", done=True)]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, Script(replies))
        assert await session.exists("last")
    assert [("You say that the task is complete" in told) for told in done.told] == [
        False, True, False, True,
    ]  # fmt: skip
    assert len(done.of("reply")) == 4
    assert done.outcome.answer == "a"


async def test_the_xml_form_is_asked_for_and_read(tmp_path):
    def reply(keys, done="false"):
        return (
            f"<response><analysis>a</analysis><plan>p</plan><commands>{keys}</commands>"
            f"<task_complete>{done}</task_complete></response>"
        )

    script = [
        (reply('<keystrokes duration="0.1">echo "<b>" x-$((1+1))\n</keystrokes>'), "<b> x-2"),
        reply("", "true"),
        reply("", "true"),
    ]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script, parser="xml")
    assert "<keystrokes duration=" in done.told[0]
    assert "<task_complete>true</task_complete>" in done.told[-1]
    assert (done.outcome.answer, done.outcome.stopped_by) == ("a", None)


async def test_a_model_is_stopped_after_its_turns(tmp_path):
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, [plan("true\n")] * 9, max_turns=3)
    assert (done.outcome.stopped_by, done.outcome.answer) == ("max_turns", None)
    assert (len(done.asked), done.of("final")[0]["turns"]) == (3, 3)


async def test_a_refusal_ends_the_attempt(tmp_path):
    script = [chat("I cannot help.", finish_reason="content_filter")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert done.outcome.stopped_by == "content_filter"


async def test_a_failing_endpoint_is_no_verdict(tmp_path):
    async with workspace(tmp_path) as session:
        with pytest.raises(ModelError) as caught:
            await attempt(session, tmp_path, error(401, "no key"))
    assert caught.value.code == "unauthorized"


async def test_parts_of_a_task_are_kept(tmp_path):
    parts = (
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    )
    told = TaskInput(
        messages=(Message(role="system", content="S"), Message(role="user", content=parts))
    )
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, [], told=told)
    first, second = done.asked[0]["messages"]
    assert first == {"role": "system", "content": "S"}
    assert [part["type"] for part in second["content"]] == ["text", "text", "image_url", "text"]
    assert second["content"][-1]["text"].lstrip().startswith("The terminal now:")
    assert [step["role"] for step in done.of("message")][:2] == ["system", "user"]


# --- what is left of it


async def test_the_trajectory_is_the_one_of_the_documentation(tmp_path):
    script = [(plan("echo x-$((1+1))\n", ("", 0.2)), "x-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert [step["type"] for step in done.steps] == [
        "message", "reply", "tool", "reply", "message", "reply", "final",
    ]  # fmt: skip
    reply, tool = done.of("reply")[0], done.of("tool")[0]
    assert [call["id"] for call in reply["tool_calls"]] == ["call-1-1", "call-1-2"]
    assert json.loads(reply["tool_calls"][0]["arguments"]) == {
        "keystrokes": "echo x-$((1+1))\n",
        "duration": 0.1,
    }
    assert (tool["tool_call_id"], tool["name"], tool["turn"]) == ("call-1-2", "keystrokes", 1)
    assert tool["output"] == done.told[1]
    assert done.of("final")[0]["turns"] == 3
    assert done.outcome.details["terminals"] == 1


async def test_the_terminal_is_recorded_as_asciinema_does(tmp_path):
    script = [(plan("echo 漢-$((1+1))\n"), "漢-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    head, *events = done.recording
    assert (head["version"], head["width"], head["height"]) == (2, 160, 40)
    times = [at for at, _kind, _data in events]
    assert times == sorted(times)
    assert "漢-2\r\n" in done.typescript
    assert [data for _at, kind, data in events if kind == "m"][:2] == ["turn 1", "turn 2"]


async def test_a_flood_is_left_out_of_the_recording_and_the_rest_is_not(tmp_path):
    script = [
        (
            plan(("yes 0123456789abcdef | head -n 200000; echo flooded-$((1+1))\n", 0.5)),
            "flooded-2",
        ),
        (plan("echo quiet-$((1+1))\n"), "quiet-2"),
    ]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert "quiet-2" in done.typescript
    assert len(done.typescript) < 1_500_000


async def test_a_recording_that_cannot_be_written_is_given_up(tmp_path):
    Path(tmp_path, "kept").write_text("a file in the way")
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, [plan("true\n")], max_turns=1)
    assert done.outcome.stopped_by == "max_turns"


async def test_nothing_is_recorded_where_that_is_not_wanted(tmp_path):
    async with workspace(tmp_path) as session:
        await attempt(session, tmp_path, [plan("true\n")], max_turns=1, record_terminal=False)
    assert not Path(tmp_path, "kept").exists()


# --- endings


async def test_a_terminal_that_the_model_ended_is_replaced_once_and_it_is_told(tmp_path):
    script = [
        (plan("touch mark; exit\n"), "Your terminal is gone"),
        (plan("ls\n"), "mark"),
        (plan("kill -9 $PPID\n"), "what is never shown"),
    ]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert any("Your terminal is gone" in told for told in done.told)
    assert (done.outcome.stopped_by, done.outcome.details["terminals"]) == ("terminal", 2)
    assert done.of("final")[0]["stopped_by"] == "terminal"


async def test_a_terminal_that_does_not_answer_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "ANSWER_SECONDS", 0.5)
    script = [
        (plan("kill -STOP $PPID\n"), "Your terminal is gone (tmux does not answer)"),
        (plan("echo x-$((1+1))\n"), "x-2"),
    ]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert done.outcome.stopped_by is None


async def test_a_client_that_something_detached_is_attached_again_unnoticed(tmp_path):
    detach = "tmux list-clients -F '#{client_name}' | xargs -n 1 tmux detach-client -t"
    script = [(plan(f"{detach} && echo x-$((1+1))\n"), "x-2")]
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        async with workspace(Path(short)) as session:
            done = await attempt(session, tmp_path, script)
    assert (done.outcome.stopped_by, done.outcome.details["terminals"]) == (None, 1)


@pytest.mark.docker
async def test_what_runs_in_the_terminal_outlives_the_harness(tmp_path, images):
    script = [(plan("sleep 1234 & sleep 4321\n"), "[1]")]
    async with docker_sandbox(image=images["base"]) as session:
        await attempt(session, tmp_path, script)
        running = (await session.exec("ps -e -o args")).stdout
        assert "sleep 1234" in running
        assert "sleep 4321" in running
        assert await session.end_processes() > 0


@in_both
async def test_an_attempt_that_is_cancelled_while_it_waits_leaves_nothing(where, tmp_path, images):
    async with sandbox(where, tmp_path, images) as session:
        waiting = trio.Event()

        def behaviour(request):
            trio.from_thread.run_sync(waiting.set, trio_token=token)
            return chat(plan(("sleep 9753\n", 60)))

        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, session, tmp_path, behaviour)
            await waiting.wait()
            while "sleep 9753" not in (await session.exec("ps -e -o args")).stdout:
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        assert await session.end_processes() > 0
        found = await session.exec("ps -e -o args | grep -E '[t]mux -u|[s]leep 9753'")
        assert found.stdout == ""


@pytest.mark.docker
async def test_a_container_that_dies_is_the_sandboxs_failure(tmp_path, images):
    async with docker_sandbox(image=images["base"]) as session:
        with pytest.raises(SandboxError) as caught:
            await attempt(session, tmp_path, [plan(("kill -9 1; kill -9 -1\n", 0.5))] * 9)
    assert caught.value.code != "no-tmux"


async def test_no_command_line_of_a_process_has_the_keys(tmp_path):
    secret = "hunter2-" + os.urandom(8).hex()
    script = [
        (plan(f"read -r word # {secret}\n"), "word"),
        (
            plan("ps -e -o args | tr -d '\\n' > seen; :\n", ("ps -e -ww -o args > seen\n", 0.5)),
            PROMPT,
        ),
    ]
    async with workspace(tmp_path) as session:
        await attempt(session, tmp_path, script)
        assert secret not in (await session.read_text("seen"))


# --- getting a tmux


@pytest.mark.docker
async def test_tmux_is_brought_into_an_image_without_it(tmp_path, images):
    script = [
        (plan("cat > a.txt\n", "héllo 漢字\n", "C-d"), PROMPT),
        (plan("vi a.txt\n"), "héllo 漢字"),
        (plan("o", "second line", "Escape", ":wq\n"), PROMPT),
        (plan("env | grep -c LOCPATH; echo x-$((1+1))\n"), "\n0\nx-2"),
    ]
    async with docker_sandbox(image=images["busybox"]) as session:
        done = await attempt(session, tmp_path, script)
        assert await session.read_text("a.txt") == "héllo 漢字\nsecond line\n"
    assert done.outcome.details["tmux"].endswith("brought in")


@pytest.mark.docker
async def test_tmux_is_brought_in_for_a_user_without_rights_or_home(tmp_path, images):
    script = [(plan("id -u; echo x-$((1+1))\n"), "65534\nx-2")]
    async with docker_sandbox(image=images["busybox"], user="65534", workdir="/") as session:
        done = await attempt(session, tmp_path, script)
    assert done.outcome.details["tmux"].endswith("brought in")


@pytest.mark.docker
@pytest.mark.parametrize(
    "made",
    [
        "printf '#!/bin/sh\necho tmux 2.8\n' > /usr/bin/tmux",
        "rm -r /usr/lib/locale",
    ],
    ids=["too old", "no locale"],
)
async def test_a_tmux_that_cannot_be_used_is_replaced_by_one_that_is_brought_in(
    made, tmp_path, images
):
    script = [(plan("cat > a\n", "漢字\n", "C-d", "cat a; echo x-$((1+1))\n"), "漢字\nx-2")]
    async with docker_sandbox(image=images["base"]) as session:
        assert (await session.exec(made)).returncode == 0
        done = await attempt(session, tmp_path, script)
    assert done.outcome.details["tmux"].endswith("brought in")


async def test_a_client_of_an_older_tmux_is_silenced_after_it_is_attached(tmp_path, monkeypatch):
    monkeypatch.setattr(Started, "has_flags", False)
    script = [(plan(("seq 50000; echo x-$((1+1))\n", 0.5)), "x-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script)
    assert done.outcome.details["terminals"] == 1


@pytest.mark.parametrize(
    ("version", "has_flags"),
    [("3.0a", False), ("3.1c", False), ("3.2", True), ("3.3a", True), ("next-3.6", True), ("master", True)],
)  # fmt: skip
def test_flags_of_clients_are_known_by_the_version(version, has_flags):
    started = Started(
        argv=(), env={}, directory="", session="", pane="", version=version, is_brought=False
    )
    assert started.has_flags == has_flags


def test_a_bundle_has_the_program_and_what_it_needs():
    made = bundled(None)
    assert {"tmux", "ld.so", "C.utf8/LC_CTYPE", "s/screen-256color"} <= made.files.keys()
    assert any(name.startswith("libc.so") for name in made.files)
    assert made.command("/d") == ["/d/ld.so", "--library-path", "/d", "/d/tmux"]
    assert made.folders == ("C.utf8", "s")


def test_a_static_program_needs_no_loader():
    made = bundled("/bin/busybox")
    assert "ld.so" not in made.files
    assert made.command("/d") == ["/d/tmux"]


@pytest.mark.docker
async def test_a_terminal_needs_only_some_directory_that_can_be_written(tmp_path, images):
    script = [(plan("echo $TMUX x-$((1+1))\n"), " x-2")]
    async with docker_sandbox(image=images["base"], user="65534", workdir="/") as session:
        await session.exec("chmod 755 /tmp /var/tmp", user="0")
        done = await attempt(session, tmp_path, script)
    assert "/dev/shm/.agentcompass-terminal-" in said(done)


@pytest.mark.docker
async def test_a_tmux_is_brought_to_where_programs_can_be_run(tmp_path, images):
    script = [(plan("echo $TMUX x-$((1+1))\n"), " x-2")]
    home = {"env_variables": {"HOME": "/home"}}
    async with docker_sandbox(
        image=images["busybox"], user="65534", workdir="/", **home
    ) as session:
        await session.exec("chmod 755 /tmp; mkdir -m 777 /home", user="0")
        done = await attempt(session, tmp_path, script)
    assert "\n/home/.agentcompass-terminal-" in said(done)


async def test_a_terminal_works_in_a_sandbox_that_is_isolated(tmp_path):
    script = [(plan("echo 漢字; stty size; echo $HOME x-$((1+1))\n"), " x-2")]
    async with workspace(tmp_path, isolation="bubblewrap") as session:
        done = await attempt(session, tmp_path, script)
        assert await session.end_processes() > 0
    assert f"\n漢字\n40 160\n{session.workdir} x-2\n" in said(done)


async def test_a_tmux_that_is_named_is_brought_in(tmp_path):
    script = [(plan("echo $TMUX x-$((1+1))\n"), "x-2")]
    async with workspace(tmp_path) as session:
        done = await attempt(session, tmp_path, script, tmux=shutil.which("tmux"))
    assert done.outcome.details["tmux"].endswith("brought in")


async def test_without_any_tmux_it_is_said_what_to_do(tmp_path):
    Path(tmp_path, "tmux").write_text("no program")
    async with workspace(tmp_path) as session:
        with pytest.raises(SandboxError) as caught:
            await attempt(session, tmp_path, [], tmux=str(tmp_path / "tmux"))
    assert (caught.value.code, caught.value.retryable) == ("no-tmux", False)
    assert "harness parameter `tmux`" in caught.value.hint


async def test_without_a_sandbox_there_is_nothing_to_do(tmp_path):
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await attempt(None, tmp_path, [])


def test_the_forms_are_described_as_they_are_read():
    assert '"task_complete": true' in prompts.confirmation("json", "")
    assert "<task_complete>true" in prompts.confirmation("xml", "")
    assert TOLD.prompt == "Do it."
