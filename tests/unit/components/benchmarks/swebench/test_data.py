"""Rows of a data set: from a hub that the real client of the package huggingface_hub talks to, or from a file."""

import io
import json

import pyarrow
import pytest
from pyarrow import parquet

from agentcompass.components.benchmarks.swebench import data
from agentcompass.components.benchmarks.swebench.data import Published
from agentcompass.errors import ConfigurationError, PreflightError
from support.components import context
from support.hub import Hub

NAME = "SWE-bench/SWE-bench_Toy"
TABLE = "data/test-00000-of-00001.parquet"
ROWS = [
    {"instance_id": f"toy__calc-{n}", "FAIL_TO_PASS": ["a"], "text": "é\u2028" * 50}
    for n in range(7)
]


def table(rows):
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=2)
    return file.getvalue()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with Hub() as served:
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_XET_CACHE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        yield served


@pytest.fixture
def commit(hub):
    files = {
        TABLE: table(ROWS),
        "data/dev-00000-of-00001.parquet": table(ROWS[:1]),
        "README.md": b"#",
    }
    return hub.add(NAME, files)


@pytest.fixture
def get(tmp_path):
    notes = []

    async def get(revision, split="test", **fields):
        ctx = context(tmp_path / "data", note=notes.append, **fields)
        source = Published(repository=NAME, revision=revision, split=split)
        return await data.published(source, ctx, "swebench_toy")

    get.notes = notes
    return get


async def test_the_first_use_downloads_and_the_second_asks_nobody(hub, commit, get):
    first = await get(commit)
    assert first.rows == ROWS
    assert first.version == commit
    assert get.notes == [f"getting the data set {NAME} at {commit}"]
    before = len(hub.requests())
    assert before > 0
    assert not any("README" in path or "dev-" in path for path in hub.requests())
    assert await get(commit) == first
    assert len(hub.requests()) == before


async def test_a_branch_is_resolved_when_it_is_first_asked_for(hub, commit, get):
    assert (await get("main")).version == commit
    hub.add(NAME, {TABLE: table(ROWS[:2])})
    assert (await get("main")).version == commit


async def test_a_split_that_is_not_there_is_told_with_those_that_are(commit, get):
    with pytest.raises(PreflightError, match=r"has no data/train-\*\.parquet, but .*test-0000"):
        await get(commit, "train")


async def test_a_download_that_breaks_off_is_repaired(hub, commit, get):
    hub.store.spoil("", cut_after=1000)
    assert (await get(commit)).rows == ROWS


async def test_what_the_cache_has_damaged_is_repaired(hub, commit, get, tmp_path):
    await get(commit)
    [blob] = (path for path in (tmp_path / "hf").rglob("blobs/*") if len(path.name) == 64)
    blob.write_bytes(b"PAR1" + blob.read_bytes()[4:-1] + b"?")
    [file] = (tmp_path / "data/swebench").iterdir()
    file.write_bytes(file.read_bytes()[:-100])  # and so are our own rows
    assert (await get(commit)).rows == ROWS


async def test_what_has_a_wrong_checksum_is_an_error_that_names_the_file(hub, commit, get):
    size = len(hub.repositories[NAME].files[TABLE])
    for _ in range(6):
        hub.store.spoil("", body=b"?" * size)
    with pytest.raises(PreflightError, match=f"{TABLE} has not the checksum"):
        await get(commit)
    hub.store.faults.clear()
    assert (await get(commit)).rows == ROWS


async def test_a_repository_that_needs_a_token_says_so_and_takes_it(hub, get, monkeypatch):
    commit = hub.add(NAME, {TABLE: table(ROWS)}, token="hf_secret")
    with pytest.raises(PreflightError, match="cannot be had") as caught:
        await get(commit)
    assert "set HF_TOKEN" in caught.value.hint
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (await get(commit)).rows == ROWS
    assert {asked.headers.get("authorization") for asked in hub.store.asked} == {None}


async def test_a_revision_that_is_not_there_is_told(hub, commit, get):
    with pytest.raises(PreflightError, match="RevisionNotFoundError") as caught:
        await get("f" * 40)
    assert "parameter `revision`" in caught.value.hint


async def test_offline_the_hub_s_own_cache_is_used(hub, commit, get, monkeypatch, tmp_path):
    await get(commit)
    for file in (tmp_path / "data/swebench").iterdir():
        file.unlink()
    before = len(hub.requests())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert (await get(commit)).rows == ROWS
    assert len(hub.requests()) == before
    with pytest.raises(PreflightError, match=r"LocalEntryNotFoundError|OfflineModeIsEnabled"):
        await get("f" * 40)


async def test_a_dry_run_downloads_nothing(hub, commit, get, tmp_path):
    with pytest.raises(PreflightError) as caught:
        await get(commit, may_download=False)
    assert "agentcompass prefetch swebench_toy" in caught.value.hint
    assert hub.requests() == []
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
async def test_a_file_of_the_user_s_has_rows_too(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        path.write_bytes(table(ROWS))
    elif ending == "json":
        path.write_text(json.dumps(ROWS))
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS))
    first = await data.of_file(path, context(tmp_path / "data"))
    assert first.rows == ROWS
    assert len(first.version) == 64
    assert await data.of_file(path, context(tmp_path / "data")) == first


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.jsonl", None, "No such file"),
        ("rows.parquet", None, "No such file"),
        ("rows.jsonl", b"{", "it is no JSON"),
        ("rows.json", b"[1]", "it is no list of objects"),
    ],
)
async def test_a_file_that_has_none_is_a_configuration_error(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        await data.of_file(path, context(tmp_path / "data"))


async def test_a_parquet_file_that_is_none_is_told(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 rubbish")
    with pytest.raises(PreflightError, match="ArrowInvalid"):
        await data.of_file(path, context(tmp_path / "data"))
