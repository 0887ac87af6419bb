"""A program gets into sandboxes: shown where that costs nothing, uploaded where it does not."""

import platform

import attrs
import pytest

from agentcompass.components.base import LoadContext, SandboxPlan
from agentcompass.components.harnesses.claude_code.published import CLAUDE_CODE
from agentcompass.components.harnesses.claude_code.published import VERSION as CLAUDE_VERSION
from agentcompass.components.harnesses.codex.published import CODEX
from agentcompass.components.harnesses.codex.published import VERSION as CODEX_VERSION
from agentcompass.components.harnesses.installed.place import settled_in
from agentcompass.components.harnesses.installed.published import (
    Build,
    Published,
    machine_of,
    this_machine,
)
from agentcompass.components.harnesses.installed.supply import Supply
from agentcompass.errors import PreflightError, SandboxError
from support.commandline import Program
from support.docker import busybox_image
from support.docker_sandboxes import docker_sandbox
from support.host import sandbox
from support.npm import Registry, packed

TOOL = b"#!/bin/sh\necho used $0\n"
OTHER = "linux-riscv64"


@pytest.fixture
def registry(monkeypatch):
    with Registry() as served:
        monkeypatch.setenv("npm_config_registry", served.url)
        for machine in (this_machine(), f"{this_machine()}-musl", OTHER):
            served.publish(f"tool-{machine}", "1", packed({"package/bin/tool": TOOL}))
        yield served


@pytest.fixture
def published():
    machines = (this_machine(), f"{this_machine()}-musl", OTHER)
    return Published(
        name="tool",
        command="tool",
        executable="bin/tool",
        builds={machine: Build(package=f"tool-{machine}") for machine in machines},
    )


@pytest.fixture
async def supply(registry, published, tmp_path):
    made = Supply(published, "1")
    await made.fetch(LoadContext(data_dir=tmp_path / "data"))
    return made


async def used(session, supply):
    async with settled_in(session, supply.places()) as place:
        program = await supply.bring(session, place)
        return place, (await session.exec([program])).stdout


async def test_commands_of_this_machine_use_it_where_it_is_kept(supply, tmp_path):
    async with sandbox(tmp_path / "s", supply.equip(SandboxPlan())) as session:
        place, said = await used(session, supply)
    assert said == f"used {tmp_path}/data/programs/{said.split('/programs/')[1]}"
    assert place.machine == this_machine()


async def test_isolated_sandboxes_are_shown_it(supply, tmp_path):
    plan = supply.equip(SandboxPlan())
    async with sandbox(tmp_path / "s", plan, isolation="bubblewrap") as session:
        _, said = await used(session, supply)
    assert said == "used /opt/agentcompass/tool-1/bin/tool\n"


async def test_sandboxes_that_cannot_be_shown_anything_get_a_copy(supply, tmp_path):
    async with sandbox(tmp_path / "s", isolation="bubblewrap") as session:
        place, said = await used(session, supply)
    assert said == f"used {place.home}/tool/bin/tool\n"


@pytest.mark.docker
@pytest.mark.usefixtures("docker_engine")
async def test_containers_are_shown_it_whatever_is_in_their_image(supply):
    plan = supply.equip(SandboxPlan())
    async with docker_sandbox(plan, image=busybox_image()) as session:
        found = await session.exec(["/opt/agentcompass/tool-1/bin/tool"])
    assert found.stdout == "used /opt/agentcompass/tool-1/bin/tool\n"


async def test_a_sandbox_of_another_kind_gets_what_was_built_for_it(supply, registry, tmp_path):
    async with (
        sandbox(tmp_path / "s", isolation="bubblewrap") as session,
        settled_in(session, supply.places()) as place,
    ):
        other = attrs.evolve(place, machine=OTHER)
        program = await supply.bring(session, other)
        assert program == f"{place.home}/tool/bin/tool"
    assert f"/tool-{OTHER}/1" in registry.paths()


async def test_a_sandbox_for_which_nothing_is_built_is_told_so(supply, tmp_path):
    async with (
        sandbox(tmp_path / "s") as session,
        settled_in(session, supply.places()) as place,
    ):
        with pytest.raises(
            SandboxError, match=r"is published for .*, not for linux-s390x"
        ) as caught:
            await supply.bring(session, attrs.evolve(place, machine="linux-s390x"))
    assert caught.value.code == "agent-unavailable"


async def test_a_dry_run_fetches_nothing(registry, published, tmp_path):
    supply = Supply(published, "1")
    with pytest.raises(PreflightError, match="is not in"):
        await supply.fetch(LoadContext(data_dir=tmp_path / "data", may_download=False))
    assert registry.asked == []


async def test_a_directory_of_its_own_is_private_and_outside_of_the_work_directory(tmp_path):
    async with sandbox(tmp_path, SandboxPlan(env={"HOME": "/"})) as session:
        async with settled_in(session, ["sh"]) as place:
            mode = (await session.exec(["stat", "-c", "%a", place.home])).stdout
            assert not place.home.startswith(session.workdir)
        assert not await session.exists(place.home)
    assert (mode, place.program) == ("700\n", "/bin/sh") or place.program == "/usr/bin/sh"


async def test_a_directory_has_the_same_name_in_each_run_and_another_where_that_is_taken(tmp_path):
    homes = []
    for _ in range(2):
        async with (
            sandbox(tmp_path, SandboxPlan(), isolation="bubblewrap") as session,
            settled_in(session, []) as one,
            settled_in(session, []) as other,
        ):
            homes.append((one.home, other.home))
    assert homes[0] == homes[1]
    assert homes[0] == (homes[0][0], f"{homes[0][0]}-2")


@pytest.mark.docker
@pytest.mark.usefixtures("docker_engine")
async def test_a_container_is_looked_at_with_nothing_but_a_shell():
    async with (
        docker_sandbox(image=busybox_image()) as session,
        settled_in(session, ["tool", "/bin/busybox"]) as place,
    ):
        pass
    assert (place.machine, place.program) == (this_machine(), "/bin/busybox")


async def test_a_sandbox_where_nothing_can_be_written_is_told_so(tmp_path):
    nowhere = {"HOME": "/dev/null", "TMPDIR": "/proc", "PATH": "/nowhere"}
    async with sandbox(tmp_path, SandboxPlan(env=nowhere), isolation="bubblewrap") as session:
        with pytest.raises(SandboxError, match="no shell, or no directory"):
            async with settled_in(session, []):
                pass


@pytest.mark.parametrize(
    ("processor", "is_musl", "name"),
    [
        ("x86_64", False, "linux-x64"),
        ("aarch64", True, "linux-arm64-musl"),
        ("riscv64", False, "linux-riscv64"),
    ],
)
def test_machines_are_named_as_npm_does(processor, is_musl, name):
    assert machine_of(processor, is_musl=is_musl) == name


def test_the_pinned_versions_have_checksums_for_every_machine():
    assert platform.machine() in ("x86_64", "aarch64")
    for published, version in ((CLAUDE_CODE, CLAUDE_VERSION), (CODEX, CODEX_VERSION)):
        for machine in published.builds:
            package = published.package(version, machine)
            assert package.integrity.startswith("sha512-")
            assert published.package("9.9.9", machine).integrity is None
    assert CODEX.package(CODEX_VERSION, "linux-x64").version == f"{CODEX_VERSION}-linux-x64"


def test_the_program_is_brought_ahead_of_time(registry, tmp_path):
    name = f"@anthropic-ai/claude-code-{this_machine()}"
    registry.publish(name, "1.2.3", packed({"package/claude": TOOL}))
    words = ["prefetch", "jsonl", "--benchmark-params", '{"path": "tasks.jsonl"}']
    words += ["--harness", "claude_code", "--harness-params", '{"version": "1.2.3"}']
    (tmp_path / "tasks.jsonl").write_text('{"id": "t", "prompt": "a", "answer": "b"}')
    options = {"npm_config_registry": registry.url, "AGENTCOMPASS_DATA_DIR": str(tmp_path / "data")}
    program = Program(tmp_path)
    done = program(*words, **options)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "data").rglob("claude")] == ["claude"]
    asked = len(registry.paths())
    assert program(*words, **options).returncode == 0
    assert len(registry.paths()) == asked > 0
