"""Repositories of the Hugging Face hub, from a server that speaks its protocol."""

import os
import threading

import pytest
import trio

from agentcompass.datasets import HubSource
from agentcompass.errors import ConfigurationError, PreflightError
from support.hub import content_of
from support.loopback import Given

NAME = "owner/data"
LARGE = bytes(range(256)) * 20_000
FILES = {
    "README.md": b"# Data\n",
    "data/test.parquet": LARGE,
    "data/train.parquet": b"PAR1" * 1000,
    "tasks/a b/task.toml": b"x = 1\n",
    "tasks/empty": b"",
}


@pytest.fixture
def commit(hub):
    return hub.add(NAME, FILES)


def source(revision, **fields):
    return HubSource(repository=NAME, revision=revision, **fields)


async def test_all_files_of_a_commit_come_with_their_content(hub, commit, get):
    obtained = await get(source(commit))
    assert content_of(obtained.directory) == FILES
    assert obtained.revision == commit
    assert get.told[0] == f"getting owner/data@{commit[:12]}"


async def test_the_second_use_makes_no_request(hub, commit, get):
    first = await get(source("main"))
    before = len(hub.requests())
    assert await get(source("main")) == first
    assert len(hub.requests()) == before


async def test_a_branch_stays_what_it_was_when_it_was_first_obtained(hub, commit, get):
    assert (await get(source("main"))).revision == commit
    hub.add(NAME, {"README.md": b"new"})
    assert (await get(source("main"))).revision == commit


async def test_a_directory_and_patterns_choose_files(hub, commit, get):
    some = await get(source(commit, path="data", files=("te*.parquet",)))
    assert content_of(some.directory) == {"test.parquet": LARGE}


async def test_patterns_that_no_file_has_are_told(hub, commit, get):
    with pytest.raises(PreflightError, match=r"has no such files: \*\.csv"):
        await get(source(commit, files=("*.csv",)))


async def test_a_long_list_of_files_comes_in_pages(hub, get):
    hub.page = 3
    files = {f"f{number}": b"%d" % number for number in range(10)}
    obtained = await get(source(hub.add(NAME, files)))
    assert content_of(obtained.directory) == files
    assert sum("/tree/" in path for path in hub.requests()) == 4


async def test_a_model_repository_has_other_addresses(hub, get):
    commit = hub.add(NAME, {"config.json": b"{}"})
    await get(source(commit, kind="model"))
    assert hub.requests() == [
        f"/api/models/{NAME}/tree/{commit}",
        f"/{NAME}/resolve/{commit}/config.json",
    ]


# --- what breaks


async def test_a_download_that_breaks_off_goes_on_where_it_ended(hub, commit, get):
    hub.store.spoil("", cut_after=3_000_000)
    obtained = await get(source(commit, files=("data/test.parquet",)))
    assert content_of(obtained.directory) == {"data/test.parquet": LARGE}
    ranges = [asked.headers.get("range") for asked in hub.store.asked]
    assert ranges[0] is None
    assert 0 < int(ranges[1].removeprefix("bytes=").rstrip("-")) <= 3_000_000


async def test_after_a_cancellation_the_next_try_goes_on(hub, commit, get, tmp_path):
    gate = threading.Event()
    hub.store.spoil("", cut_after=3_000_000, gate=gate)
    some = source(commit, files=("data/test.parquet",))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, some)
        while not any(
            part.stat().st_size for part in tmp_path.glob("data/datasets/*.part/parts/*")
        ):
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    gate.set()
    assert content_of((await get(some)).directory) == {"data/test.parquet": LARGE}
    assert hub.store.asked[-1].headers["range"].startswith("bytes=")


async def test_an_earlier_part_of_something_else_is_thrown_away(hub, commit, get, tmp_path):
    await get(source(commit, files=("data/test.parquet",)))
    [content] = (tmp_path / "data/datasets").glob("*/files/data/test.parquet")
    part = content.parents[2].with_name(content.parents[2].name + ".part")
    content.parents[2].rename(part)
    damaged = part / "files/data/test.parquet"
    damaged.write_bytes(b"?" * len(LARGE))
    obtained = await get(source(commit, files=("data/test.parquet",)))
    assert content_of(obtained.directory) == {"data/test.parquet": LARGE}


@pytest.mark.parametrize("path", ["README.md", "data/test.parquet"], ids=["git", "lfs"])
async def test_what_comes_with_a_wrong_checksum_is_an_error_that_names_the_file(
    hub, commit, get, path
):
    server = hub.store if path.endswith("parquet") else hub.front
    for _ in range(2):
        server.spoil("" if server is hub.store else path, body=b"?" * len(FILES[path]))
    with pytest.raises(PreflightError, match=f"{path} has not the checksum"):
        await get(source(commit, files=(path,)))


async def test_a_wrong_content_that_comes_once_is_asked_for_again(hub, commit, get):
    hub.front.spoil("README.md", body=b"?" * len(FILES["README.md"]))
    obtained = await get(source(commit, files=("README.md",)))
    assert content_of(obtained.directory) == {"README.md": FILES["README.md"]}


async def test_a_file_that_was_removed_or_cut_is_got_again_alone(hub, commit, get):
    obtained = await get(source(commit))
    (obtained.directory / "README.md").unlink()
    (obtained.directory / "data/train.parquet").write_bytes(b"PAR1")
    before = len(hub.requests())
    assert content_of((await get(source(commit))).directory) == FILES
    contents = [path for path in hub.requests()[before:] if "/api/" not in path]
    assert not any("test.parquet" in path for path in contents)


async def test_a_busy_server_is_asked_again_after_the_time_that_it_names(hub, commit, get):
    busy = Given(status=429, headers={"retry-after": "0"})
    hub.front.fail(f"/tree/{commit}", busy, Given(status=503))
    await get(source(commit))
    assert any("answered 429 (too many requests); once more in 0 s" in line for line in get.told)
    assert any("answered 503" in line for line in get.told)


async def test_a_server_that_asks_to_wait_for_hours_is_not_waited_for(hub, commit, get):
    hub.front.fail(f"/tree/{commit}", Given(status=429, headers={"retry-after": "7200"}))
    with pytest.raises(PreflightError, match="it asks to wait for 7200 s"):
        await get(source(commit))


async def test_a_server_that_never_recovers_is_given_up(hub, commit, get):
    hub.front.fail(f"/tree/{commit}", *[Given(status=500)] * 6)
    with pytest.raises(PreflightError, match="answered 500"):
        await get(source(commit))
    assert len(hub.front.asked) == 6


async def test_a_server_that_is_not_there_is_named(monkeypatch, get):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PreflightError, match=r"no connection to 127\.0\.0\.1:1"):
        await get(source("main"))


# --- who may have it


async def test_a_repository_that_is_not_there_may_need_a_token(hub, get):
    with pytest.raises(PreflightError, match="answered 401") as caught:
        await get(source("main"))
    assert "set HF_TOKEN" in caught.value.hint


@pytest.mark.parametrize("place", ["variable", "file"])
async def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(
    hub, get, monkeypatch, tmp_path, place
):
    commit = hub.add(NAME, FILES, token="hf_secret")
    if place == "variable":
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
    else:
        (tmp_path / "hf").mkdir()
        (tmp_path / "hf/token").write_text("hf_secret\n")
    await get(source(commit))
    assert {asked.headers.get("authorization") for asked in hub.front.asked} == {"Bearer hf_secret"}
    assert [asked.headers.get("authorization") for asked in hub.store.asked] == [None, None]


async def test_a_token_that_is_refused_is_told_without_showing_it(hub, get, monkeypatch):
    commit = hub.add(NAME, FILES, token="another")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(PreflightError, match="Access to this repository is restricted") as caught:
        await get(source(commit))
    assert "does not allow it" in caught.value.hint
    assert "hf_secret" not in str(caught.value)


async def test_a_revision_or_path_that_is_not_there_is_told(hub, commit, get):
    with pytest.raises(PreflightError, match=r"answered 404.*Invalid rev id"):
        await get(source("v9"))
    with pytest.raises(PreflightError, match="nowhere does not exist"):
        await get(source(commit, path="nowhere"))


async def test_offline_what_is_there_is_used_and_what_is_not_is_an_error(
    hub, commit, get, monkeypatch
):
    first = await get(source(commit, files=("README.md",)))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert await get(source(commit, files=("README.md",))) == first
    with pytest.raises(PreflightError, match="HF_HUB_OFFLINE forbids"):
        await get(source(commit))


async def test_where_nothing_may_be_downloaded_nothing_is_written(hub, commit, get, tmp_path):
    with pytest.raises(PreflightError) as caught:
        await get(source(commit), may_download=False, wanted_by="some_bench")
    assert "agentcompass prefetch some_bench" in caught.value.hint
    assert not (tmp_path / "data").exists()
    assert hub.requests() == []


# --- what is refused


@pytest.mark.parametrize(
    "path", ["../../etc/cron", "/etc/cron", "a/../../b", "a\\b", ".git/hooks/x"]
)
async def test_a_path_that_leads_elsewhere_is_refused(hub, get, path, tmp_path):
    commit = hub.add(NAME, {"good": b"x", path: b"evil"})
    with pytest.raises(PreflightError, match="has a file that is refused"):
        await get(source(commit))
    assert not [file for file in tmp_path.rglob("*") if file.name in {"cron", "b", "x"}]


async def test_a_file_without_a_checksum_is_refused(hub, commit, get):
    listed = b'[{"type": "file", "path": "README.md", "size": 7}]'
    hub.front.fail(f"/tree/{commit}", Given(body=listed))
    with pytest.raises(PreflightError, match=r"no checksum of 'README\.md'"):
        await get(source(commit))


async def test_a_redirect_in_a_circle_ends(hub, commit, get):
    here = f"{hub.endpoint}/api/datasets/{NAME}/tree/{commit}"
    hub.front.fail(f"/tree/{commit}", *[Given(status=302, headers={"location": here})] * 11)
    with pytest.raises(PreflightError, match="round in circles"):
        await get(source(commit))


async def test_too_little_room_is_told_before_anything_is_downloaded(hub, commit, get):
    size = 10**18
    listed = b'[{"type": "file", "path": "x", "size": %d, "oid": "%s"}]' % (size, b"a" * 40)
    hub.front.fail(f"/tree/{commit}", Given(body=listed))
    with pytest.raises(PreflightError, match=r"needs 1000000000000\.0 MB, and .* MB left"):
        await get(source(commit))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"repository": "../x"}, "is no name of a repository"),
        ({"repository": "a/b/c"}, "is no name of a repository"),
        ({"revision": "--upload-pack=x"}, "is no revision"),
        ({"revision": ""}, "is no revision"),
        ({"path": "../x"}, "cannot be a path"),
    ],
)
def test_a_source_that_cannot_be_is_a_configuration_error(fields, words):
    with pytest.raises(ConfigurationError, match=words):
        HubSource(**{"repository": NAME, "revision": "main", **fields})


# --- several at once


async def test_two_that_want_the_same_at_once_download_it_once(hub, commit, get):
    results = []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(lambda: _into(results, get(source(commit))))
    assert results[0] == results[1]
    assert len(hub.requests()) == len(set(hub.requests()))
    assert any("waiting for another process" in line for line in get.told)


async def _into(results, awaitable):
    results.append(await awaitable)


async def test_a_file_system_that_cannot_be_written_is_told(hub, commit, get, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PreflightError, match="cannot be kept at"):
        await get(source(commit), data_dir=tmp_path / "file")


async def test_the_proxy_of_the_environment_is_used(hub, commit, get, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(PreflightError, match="no connection to"):
        await get(source(commit))
    assert hub.requests() == []
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    await get(source(commit))
    assert os.environ["http_proxy"]
