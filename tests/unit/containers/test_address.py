"""Where the engine is."""

import hashlib
import json
import socket
import subprocess

import pytest

from agentcompass.containers.address import find_engine
from agentcompass.containers.errors import DockerError


def find(home, host=None, **environ):
    return find_engine(host, environ=environ, home=home)


def write_context(home, name, **endpoint):
    digest = hashlib.sha256(name.encode()).hexdigest()
    path = home / ".docker" / "contexts" / "meta" / digest / "meta.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"Name": name, "Endpoints": {"docker": endpoint}}))
    return home / ".docker" / "contexts" / "tls" / digest / "docker"


def write_config(home, **content):
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker" / "config.json").write_text(json.dumps(content))


def make_certificates(directory):
    directory.mkdir(parents=True)
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=directory,
        capture_output=True,
        check=True,
        timeout=60,
    )
    (directory / "ca.pem").write_bytes((directory / "cert.pem").read_bytes())


def test_a_unix_socket_is_taken_from_the_environment(tmp_path):
    address = find(tmp_path, DOCKER_HOST="unix:///run/other.sock")
    assert address.socket_path == "/run/other.sock"
    assert str(address) == "unix:///run/other.sock (from DOCKER_HOST)"


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("tcp://10.0.0.7", "http://10.0.0.7:2375"),
        ("tcp://engine:4000", "http://engine:4000"),
        ("tcp://[::1]:4000", "http://[::1]:4000"),
        ("http://engine:4000/prefix/", "http://engine:4000/prefix"),
        ("https://engine", "https://engine:2376"),
    ],
)
def test_an_engine_on_the_network_has_a_port_and_a_scheme(tmp_path, host, origin):
    address = find(tmp_path, DOCKER_HOST=host)
    assert address.origin == origin
    assert address.socket_path is None


def test_what_the_caller_names_wins_over_the_environment(tmp_path):
    address = find(tmp_path, "unix:///mine.sock", DOCKER_HOST="unix:///theirs.sock")
    assert address.socket_path == "/mine.sock"


def test_the_current_context_is_used_unless_the_environment_names_another(tmp_path):
    write_context(tmp_path, "lab", Host="tcp://lab:2375")
    write_context(tmp_path, "other", Host="unix:///other.sock")
    write_config(tmp_path, currentContext="lab")
    assert find(tmp_path).origin == "http://lab:2375"
    assert find(tmp_path, DOCKER_CONTEXT="other").socket_path == "/other.sock"
    assert find(tmp_path, DOCKER_HOST="unix:///d.sock").socket_path == "/d.sock"
    assert find(tmp_path, DOCKER_CONTEXT="default").source == "the default"


def test_the_configuration_may_be_elsewhere(tmp_path):
    write_context(tmp_path, "lab", Host="tcp://lab:2375")
    write_config(tmp_path, currentContext="lab")
    address = find(tmp_path / "nobody", DOCKER_CONFIG=str(tmp_path / ".docker"))
    assert address.source == "the context 'lab'"


def test_certificates_of_a_context_are_loaded(tmp_path):
    make_certificates(write_context(tmp_path, "safe", Host="tcp://safe:2376"))
    address = find(tmp_path, DOCKER_CONTEXT="safe")
    assert address.origin == "https://safe:2376"
    assert address.tls.check_hostname


def test_a_context_may_say_that_certificates_are_not_checked(tmp_path):
    make_certificates(write_context(tmp_path, "lax", Host="tcp://lax", SkipTLSVerify=True))
    assert not find(tmp_path, DOCKER_CONTEXT="lax").tls.check_hostname


def test_certificates_are_found_by_the_environment(tmp_path):
    make_certificates(tmp_path / "certs")
    found = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path / "certs")}
    address = find(tmp_path, DOCKER_HOST="tcp://safe", **found)
    assert address.origin == "https://safe:2376"
    assert len(address.tls.get_ca_certs()) == 1


def test_podmans_socket_is_found_where_there_is_no_docker(tmp_path, monkeypatch):
    monkeypatch.setattr("agentcompass.containers.address.DEFAULT_SOCKET", "/nowhere.sock")
    (tmp_path / "podman").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "podman" / "podman.sock"))
        address = find(tmp_path, XDG_RUNTIME_DIR=str(tmp_path))
    assert address.socket_path == str(tmp_path / "podman" / "podman.sock")


def test_podmans_variable_is_the_last_that_counts(tmp_path):
    assert find(tmp_path, CONTAINER_HOST="unix:///pod.sock").socket_path == "/pod.sock"
    both = {"CONTAINER_HOST": "unix:///pod.sock", "DOCKER_HOST": "unix:///doc.sock"}
    assert find(tmp_path, **both).socket_path == "/doc.sock"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("ssh://me@lab", "ssh://"),
        ("npipe:////./pipe/docker", "unix:// or tcp://"),
        ("tcp://", "unix:// or tcp://"),
        ("tcp://lab:port", "port"),
        ("nonsense", "unix:// or tcp://"),
        ("unix://", "unix:// or tcp://"),
    ],
)
def test_an_address_that_cannot_be_used_says_who_named_it(tmp_path, host, words):
    with pytest.raises(DockerError, match=words) as caught:
        find(tmp_path, DOCKER_HOST=host)
    assert "DOCKER_HOST" in caught.value.message
    assert caught.value.code == "bad-engine-address"
    assert not caught.value.retryable


def test_an_engine_behind_ssh_comes_with_the_way_to_reach_it(tmp_path):
    with pytest.raises(DockerError) as caught:
        find(tmp_path, DOCKER_HOST="ssh://me@lab")
    assert "ssh -nNT -L" in caught.value.hint


def test_a_context_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DockerError, match="no such context"):
        find(tmp_path, DOCKER_CONTEXT="gone")


def test_a_damaged_configuration_is_an_error_that_names_the_file(tmp_path):
    write_config(tmp_path)
    (tmp_path / ".docker" / "config.json").write_text("{")
    with pytest.raises(DockerError, match=r"config\.json"):
        find(tmp_path)


def test_missing_certificates_are_an_error_that_names_the_directory(tmp_path):
    with pytest.raises(DockerError, match="no certificates in"):
        make = tmp_path / "certs"
        make.mkdir()
        (make / "cert.pem").write_text("no certificate")
        found = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(make)}
        find(tmp_path, DOCKER_HOST="tcp://safe", **found)
