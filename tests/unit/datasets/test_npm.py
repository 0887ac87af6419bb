"""Programs from npm, without npm: complete, checked, and kept."""

import stat
import tarfile
import threading

import attrs
import pytest
import trio

from agentcompass.datasets import npm
from agentcompass.datasets.npm import NpmPackage, obtain_package
from agentcompass.datasets.npmrc import npm_config
from agentcompass.errors import PreflightError
from support.loopback import Given
from support.npm import Registry, integrity_of, packed

NAME, VERSION = "@scope/tool", "1.2.3-linux-x64"
FILES = {
    "package/package.json": b"{}",
    "package/vendor/x64/bin/tool": b"\x7fELF" * 100_000,
    "package/vendor/x64/voice/large": b"x" * 1000,
    "package/vendor/x64/LICENSE": b"yours",
}


@pytest.fixture
def registry(monkeypatch):
    with Registry() as served:
        monkeypatch.setenv("npm_config_registry", served.url)
        monkeypatch.setenv("npm_config_userconfig", "/nowhere")
        monkeypatch.setenv("npm_config_globalconfig", "/nowhere")
        served.publish(NAME, VERSION, packed(FILES))
        yield served


@pytest.fixture
def package(registry):
    return NpmPackage(
        name=NAME,
        version=VERSION,
        integrity=integrity_of(registry.packages[NAME, VERSION]),
        directory="package/vendor/x64",
        omit=("voice",),
    )


@pytest.fixture
def get(tmp_path):
    told = []

    async def get(package, **options):
        return await obtain_package(package, tmp_path / "data", tell=told.append, **options)

    get.told = told
    return get


def names(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


async def test_the_part_that_is_wanted_is_there_and_can_be_run(package, get):
    directory = await get(package)
    assert names(directory) == ["LICENSE", "bin/tool"]
    assert (directory / "bin/tool").read_bytes() == FILES["package/vendor/x64/bin/tool"]
    assert stat.S_IMODE((directory / "bin/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((directory / "LICENSE").stat().st_mode) == 0o644
    assert get.told[0] == f"getting {NAME}@{VERSION}"
    assert get.told[-1] == f"got {NAME}@{VERSION}"


async def test_the_second_use_makes_no_request(registry, package, get):
    first = await get(package)
    before = len(registry.asked)
    assert await get(package) == first
    assert len(registry.asked) == before


async def test_all_who_want_it_at_once_get_the_same_and_it_is_fetched_once(registry, package, get):
    found = set()

    async def one():
        found.add(await get(package))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(one)
    assert len(found) == 1
    assert len([path for path in registry.paths() if path.endswith(".tgz")]) == 1


async def test_nothing_is_downloaded_where_that_is_not_allowed(registry, package, get, tmp_path):
    with pytest.raises(PreflightError, match="is not in"):
        await get(package, may_download=False)
    assert (registry.asked, (tmp_path / "data").exists()) == ([], False)


async def test_what_is_not_what_was_published_is_refused(registry, package, get):
    registry.publish(NAME, VERSION, packed({**FILES, "package/vendor/x64/more": b"evil"}))
    with pytest.raises(PreflightError, match="has not the checksum that it was published with"):
        await get(package)


async def test_without_a_checksum_of_ours_that_of_the_registry_counts(registry, package, get):
    package = attrs.evolve(package, integrity=None)
    registry.integrity = integrity_of(b"something else")
    with pytest.raises(PreflightError, match="has not the checksum"):
        await get(package)
    registry.integrity = integrity_of(registry.packages[NAME, VERSION], "sha1")
    with pytest.raises(PreflightError, match="gives no sha512 checksum"):
        await get(package)
    registry.integrity = None
    assert names(await get(package)) == ["LICENSE", "bin/tool"]


async def test_a_transfer_that_breaks_off_begins_again(registry, package, get):
    registry.spoil(".tgz", cut_after=500)
    registry.fail(".tgz", Given(status=503))
    assert names(await get(package)) == ["LICENSE", "bin/tool"]
    assert len([path for path in registry.paths() if path.endswith(".tgz")]) == 3


async def test_a_cancelled_transfer_leaves_nothing_that_looks_complete(registry, package, get):
    gate = threading.Event()
    registry.spoil(".tgz", cut_after=500, gate=gate)
    with trio.move_on_after(0.2) as scope:
        await get(package)
    gate.set()
    assert scope.cancelled_caught
    assert names(await get(package)) == ["LICENSE", "bin/tool"]


async def test_a_version_that_is_not_there_is_named(registry, package, get):
    with pytest.raises(PreflightError, match=r"tool@9 cannot be had: 127.0.0.1 answered 404"):
        await get(attrs.evolve(package, version="9", integrity=None))


async def test_a_package_without_the_part_is_refused(registry, package, get):
    with pytest.raises(PreflightError, match="has no directory package/vendor/riscv"):
        await get(attrs.evolve(package, directory="package/vendor/riscv"))


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


async def test_nothing_is_written_outside_and_links_are_left_out(registry, get, tmp_path):
    inside = "package/vendor/x64"
    content = packed(
        {f"{inside}/ok": b"1"}, link(f"{inside}/out", "/etc"), link(f"{inside}/hard", "/etc/passwd", tarfile.LNKTYPE)
    )  # fmt: skip
    registry.publish("links", "1", content)
    directory = await get(NpmPackage(name="links", version="1", directory=inside))
    assert sorted(path.name for path in directory.iterdir()) == ["ok"]
    registry.publish("dots", "1", packed({f"{inside}/../../../../../escaped": b"1"}))
    with pytest.raises(PreflightError, match="refused"):
        await get(NpmPackage(name="dots", version="1", directory=inside))
    assert not list(tmp_path.rglob("escaped"))


async def test_what_is_no_package_or_too_large_is_refused(registry, package, get, monkeypatch):
    registry.publish("odd", "1", b"no package at all")
    with pytest.raises(PreflightError, match="is no package"):
        await get(NpmPackage(name="odd", version="1"))
    monkeypatch.setattr(npm, "MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(PreflightError, match="too large to be unpacked"):
        await get(package)
    monkeypatch.setattr(npm, "MAX_PACKAGE_BYTES", 100)
    with pytest.raises(PreflightError, match="has more than"):
        await get(package)


async def test_a_registry_that_wants_a_token_gets_it_from_npm_s_settings(
    registry, package, get, monkeypatch, tmp_path
):
    registry.token = "secret-token"
    settings = tmp_path / "npmrc"
    settings.write_text(f"//{registry.netloc}/:_authToken=${{TOKEN}}\n")
    monkeypatch.setenv("npm_config_userconfig", str(settings))
    monkeypatch.setenv("TOKEN", "secret-token")
    assert names(await get(package)) == ["LICENSE", "bin/tool"]


async def test_a_mirror_is_asked_for_packages_that_name_the_public_registry(registry, package, get):
    registry.tarball_base = "https://registry.npmjs.org/"
    assert names(await get(package)) == ["LICENSE", "bin/tool"]


# --- npm's settings


def config(tmp_path, environ=None, **files):
    for name, text in files.items():
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / ".npmrc").write_text(text)
    environ = {"npm_config_globalconfig": str(tmp_path / "none"), **(environ or {})}
    return npm_config(environ, home=tmp_path / "home", directory=tmp_path / "project")


def test_the_public_registry_is_the_default(tmp_path):
    assert config(tmp_path).registry_of("x") == "https://registry.npmjs.org/"


def test_the_strongest_setting_counts(tmp_path):
    files = {"home": "registry=https://home/\n", "project": "registry = https://project/npm\n"}
    assert config(tmp_path, home=files["home"]).registry_of("x") == "https://home/"
    assert config(tmp_path, **files).registry_of("x") == "https://project/npm/"
    variable = {"NPM_CONFIG_REGISTRY": "https://variable"}
    assert config(tmp_path, variable, **files).registry_of("x") == "https://variable/"


def test_a_scope_may_have_a_registry_of_its_own(tmp_path):
    found = config(tmp_path, home="; a comment\n@a:registry=https://a\nregistry=https://all\n")
    assert [found.registry_of(name) for name in ("@a/x", "@b/x", "x")] == [
        "https://a/",
        "https://all/",
        "https://all/",
    ]


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("//host/npm/:_authToken=t", "Bearer t"),
        ("//host/:_authToken='t'", "Bearer t"),
        ("//host/:_authToken=${TOKEN}", "Bearer from-env"),
        ("//host/:_auth=dTpw", "Basic dTpw"),
        ("//host/:username=u\n//host/:_password=cA==", "Basic dTpw"),
        ("//other/:_authToken=t", None),
        ("//host/npm/x/y/:_authToken=t", None),
    ],
)
def test_credentials_are_for_the_address_that_they_name(tmp_path, line, header):
    found = config(tmp_path, {"TOKEN": "from-env"}, home=line)
    told = found.authorization_for("https://host/npm/@a/x")
    assert told.get("Authorization") == header
