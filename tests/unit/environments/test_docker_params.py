"""What a user may say to `docker`, and what an engine is told for it."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from agentcompass.components.base import Resources, SandboxPlan
from agentcompass.components.environments.docker.config import (
    container_config,
    lifetime_of,
    relayed_hosts,
    resources_of,
)
from agentcompass.components.environments.docker.environment import DockerEnvironment
from agentcompass.components.environments.docker.limits import limit_problems
from agentcompass.components.environments.docker.mounts import (
    Mount,
    data_problems,
    mount_of,
    mount_problems,
)
from agentcompass.components.environments.docker.params import (
    AllowedHost,
    DockerParams,
    allowed_host_of,
)
from agentcompass.errors import ConfigurationError
from agentcompass.records import Lease, ProcessIdentity

LEASE = Lease(
    id="l1",
    run_id="r1",
    task_id="../../x",
    environment="docker",
    name="agentcompass-l1",
    created_at="2026-01-01T00:00:00+00:00",
    expires_at="2026-01-02T00:00:00+00:00",
    owner=ProcessIdentity(boot_id="b", pid=7, started=9),
)


def config(plan=None, **params):
    return container_config(
        DockerParams(**params), plan or SandboxPlan(), LEASE, "image", lifetime=60
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"image": "a", "build": "b"}, "image and build"),
        ({"workdir": "here"}, "not absolute"),
        ({"network": "host"}, "not be the sandbox's own"),
        ({"network": "container:x"}, "not be the sandbox's own"),
        ({"network": "none", "allowed_hosts": ("a",)}, "exclude each other"),
        ({"allowed_hosts": ("a:80", "A")}, "port 80 of a twice"),
        ({"allowed_hosts": ("*.a",)}, "no patterns"),
        ({"allowed_hosts": ("10.0.0.1:80",)}, "needs a name"),
        ({"allowed_hosts": ("localhost:80",)}, "needs a name"),
        ({"allowed_hosts": ("a:0",)}, "HOST:PORT"),
        ({"allowed_hosts": ("a b",)}, "HOST:PORT"),
        ({"allowed_hosts": tuple(f"h{n}" for n in range(65))}, "more than 64"),
        ({"mounts": ("/a",)}, "SOURCE:TARGET"),
        ({"mounts": ("/a:/b:rx",)}, "SOURCE:TARGET"),
        ({"mounts": ("/a:b",)}, "SOURCE:TARGET"),
        ({"mounts": ("/var/run/docker.sock:/s",)}, "this whole machine"),
        ({"mounts": ("/:/host:ro",)}, "this whole machine"),
        ({"mounts": ("/run/../run:/r",)}, "this whole machine"),
        ({"mounts": ("/run/user/1000:/r",)}, "this whole machine"),
        ({"mounts": ("/run/user/1000/docker.sock:/r",)}, "this whole machine"),
        ({"mounts": ("/run/user:/r",)}, "this whole machine"),
        ({"mounts": ("/run/podman:/r",)}, "this whole machine"),
        ({"mounts": ("/proc:/p:ro",)}, "this whole machine"),
        ({"mounts": ("/proc/sys:/p",)}, "this whole machine"),
        ({"security_opt": ("seccomp:unconfined",)}, "wall"),
        ({"security_opt": ('seccomp={"defaultAction": "SCMP_ACT_ALLOW"}',)}, "wall"),
        ({"security_opt": ("seccomp=/tmp/profile.json",)}, "wall"),
        ({"image": ""}, "no name of an image"),
        ({"image": "a//b"}, "no name of an image"),
        ({"image": "../x"}, "no name of an image"),
        ({"image": "Upper"}, "no name of an image"),
        ({"image": "a:b:c"}, "no name of an image"),
        ({"network": ""}, "no name of a network"),
        ({"network": "../x"}, "no name of a network"),
        ({"env_variables": {"A=B": "c"}}, "nor have ="),
        ({"env_variables": {"": "c"}}, "may not be empty"),
        ({"env_variables": {"A": "\0"}}, "zero byte"),
        ({"command": ("a",), "init": False}, "needs init"),
        ({"cap_drop": ("NET_RWA",)}, r"no capability \(did you mean 'NET_RAW'\?\)"),
        ({"cap_drop": ("",)}, "no capability"),
        ({"platform": "windows/amd64"}, "linux/ARCHITECTURE"),
        ({"platform": "linux/amd46"}, r"no architecture 'amd46' \(did you mean 'amd64'\?\)"),
        ({"platform": "linux/arm64/v8/x"}, "linux/ARCHITECTURE/VARIANT"),
        ({"platform": "linux//v8"}, "no architecture"),
        ({"platform": ""}, "linux/ARCHITECTURE"),
        ({"user": "a b"}, "no name or uid"),
        ({"user": "a:b:c"}, "no name or uid"),
        ({"user": ""}, "no name or uid"),
        ({"security_opt": ("no-new-priveleges",)}, "did you mean 'no-new-privileges'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_engine_is_asked(params, words):
    with pytest.raises(ConfigurationError, match=words):
        DockerEnvironment(DockerParams(**params))


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigurationError) as caught:
        DockerEnvironment(DockerParams(workdir="x", mounts=("y",), network="host"))
    assert len(str(caught.value).splitlines()) == 3


def test_a_link_to_an_engines_socket_is_refused_too(tmp_path):
    (tmp_path / "innocent").symlink_to("/run")
    (problem,) = mount_problems([f"{tmp_path}/innocent:/x"], None)
    assert "whole machine" in problem


@pytest.mark.parametrize("source", ["real/engine.sock", "real", "link.sock", "."])
def test_the_socket_of_the_engine_in_use_is_refused_by_whatever_name(tmp_path, source):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "engine.sock").touch()
    (tmp_path / "link.sock").symlink_to("real/engine.sock")
    host = f"unix://{tmp_path}/link.sock"
    with pytest.raises(ConfigurationError, match="whole machine"):
        DockerEnvironment(DockerParams(host=host, mounts=(f"{tmp_path}/{source}:/x:ro",)))
    DockerEnvironment(DockerParams(host=host, mounts=(f"{tmp_path}/other:/x:ro",)))


@pytest.mark.parametrize("source", ["data", "data/volumes/x", "."])
def test_the_engine_s_own_data_is_refused(tmp_path, source):
    (problem,) = data_problems([f"{tmp_path}/{source}:/x:ro"], f"{tmp_path}/data")
    assert "own data" in problem
    assert list(data_problems([f"{tmp_path}/else:/x", "data:/x"], f"{tmp_path}/data")) == []


@pytest.mark.parametrize(
    "image",
    ["a", "python:3.12-slim", "Host.x:5000/a/b_c", "sha256:" + "a" * 64, "a:T@sha256:" + "0" * 64],
)
def test_names_of_images_are_taken_as_they_are_usual(image):
    DockerEnvironment(DockerParams(image=image, security_opt=("seccomp=builtin",)))


@pytest.mark.parametrize(
    "params",
    [
        {"cap_drop": ("ALL", "cap_net_raw", "NET_RAW")},
        {"platform": "linux/arm64/v8"},
        {"platform": "amd64"},
        {"platform": "Linux"},
        {"user": "1000:1000"},
        {"user": "www-data"},
        {"security_opt": ("no-new-privileges=false", "label:disable", "apparmor=mine")},
    ],
)
def test_names_that_engines_know_are_taken(params):
    DockerEnvironment(DockerParams(**params))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cpus": 1000.0}, "cpus 1000 is more than the 2 processors"),
        ({"cpus": 0.001}, "less than an engine can give: 0.01"),
        ({"memory_mb": 1}, "less than an engine can give: 6"),
        ({"pids": 9}, "cannot limit processes"),
    ],
)
def test_limits_that_no_sandbox_can_have_are_told_at_once(asked, words):
    info = {"NCPU": 2, "MemTotal": 2**33, "PidsLimit": False, "MemoryLimit": True}
    (problem,) = limit_problems(info, Resources(**asked), "unix:///x")
    assert words in problem


def test_limits_that_a_sandbox_can_have_are_no_problem():
    asked = Resources(cpus=2.0, memory_mb=6, pids=1)
    assert list(limit_problems({"NCPU": 2, "MemTotal": 2**33}, asked, "x")) == []
    assert list(limit_problems({}, asked, "x")) == []


def test_mounts_are_directories_or_volumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert mount_of("./data:/d:ro") == Mount(
        source=f"{os.path.realpath(tmp_path)}/data", target="/d", is_read_only=True
    )
    assert mount_of("cache:/c").is_volume
    assert not mount_of("/data:/c").is_volume


def test_allowed_hosts_have_a_name_a_place_and_ports():
    assert allowed_host_of("PyPI.org") == AllowedHost(
        name="pypi.org", host="PyPI.org", ports=(80, 443)
    )
    assert allowed_host_of("model=10.0.0.5:8000") == AllowedHost(
        name="model", host="10.0.0.5", ports=(8000,)
    )


def test_each_allowed_name_has_an_address_of_its_own():
    params = DockerParams(allowed_hosts=("a:1", "b:1", "a:2"))
    hosts = relayed_hosts(params, SandboxPlan())
    assert [(one.host.name, one.address) for one in hosts] == [
        ("a", "127.77.0.1"),
        ("a", "127.77.0.1"),
        ("b", "127.77.0.2"),
    ]
    assert container_config(params, SandboxPlan(), LEASE, "i", lifetime=1)["HostConfig"][
        "ExtraHosts"
    ] == ["a:127.77.0.1", "b:127.77.0.2"]


def test_a_task_without_network_has_none_whatever_is_allowed():
    params = DockerParams(allowed_hosts=("a",))
    plan = SandboxPlan(network=False)
    assert relayed_hosts(params, plan) == ()
    assert config(plan)["HostConfig"]["NetworkMode"] == "none"
    assert config()["HostConfig"]["NetworkMode"] == "bridge"
    assert config(network="mine")["HostConfig"]["NetworkMode"] == "mine"
    assert config(allowed_hosts=("a",))["HostConfig"]["NetworkMode"] == "none"


def test_no_variable_is_in_the_container_s_configuration():
    made = config(SandboxPlan(env={"A": "secret-1"}), env_variables={"B": "secret-2"})
    assert "secret" not in str(made)


def test_defaults_are_safe():
    host = config()["HostConfig"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["CapDrop"] == ["MKNOD", "NET_RAW"]
    assert host["PidsLimit"] == 4096
    assert host["Mounts"] == []
    assert host["Init"] is True


def test_limits_are_the_user_s_else_the_task_s():
    plan = SandboxPlan(resources=Resources(cpus=1.5, memory_mb=100, storage_mb=5, gpus=1))
    params = DockerParams(memory_mb=200, pids=9, gpus=0)
    assert resources_of(params, plan) == Resources(
        cpus=1.5, memory_mb=200, storage_mb=5, pids=9, gpus=0
    )
    host = container_config(params, plan, LEASE, "i", lifetime=1, limits_storage=True)["HostConfig"]
    assert host["NanoCpus"] == 1_500_000_000
    assert host["Memory"] == host["MemorySwap"] == 200 * 1024 * 1024
    assert host["StorageOpt"] == {"size": "5m"}
    assert "DeviceRequests" not in host
    assert config(gpus=2)["HostConfig"]["DeviceRequests"] == [
        {"Count": 2, "Capabilities": [["gpu"]]}
    ]


def test_a_container_ends_with_its_lease():
    now = datetime(2026, 1, 1, 23, tzinfo=UTC)
    assert lifetime_of(LEASE, now) == 3600
    assert lifetime_of(LEASE, now + timedelta(days=9)) == 1
    assert config()["Cmd"] == ["60"]


def test_labels_name_run_lease_and_owner():
    assert config()["Labels"] == {
        "agentcompass.lease": "l1",
        "agentcompass.run": "r1",
        "agentcompass.boot": "b",
        "agentcompass.pid": "7",
        "agentcompass.started": "9",
        "agentcompass.expires": LEASE.expires_at,
    }


@pytest.mark.parametrize(
    ("params", "is_boundary"),
    [
        ({}, False),
        ({"network": "none"}, True),
        ({"allowed_hosts": ("a",)}, True),
        ({"network": "none", "mounts": ("/data:/d:ro", "cache:/c:ro")}, True),
        ({"network": "none", "mounts": ("/data:/d",)}, False),
        ({"network": "none", "mounts": ("cache:/c",)}, False),
    ],
)
def test_it_claims_to_be_a_boundary_only_where_it_is_one(params, is_boundary):
    env = DockerEnvironment(DockerParams(**params))
    assert env.capabilities.is_security_boundary is is_boundary
