"""A real registry of images on this machine, with a password: Debian's docker-registry."""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tarfile
import time
from io import BytesIO

import docker as sdk
import pytest

from support.docker import new_name

ACCOUNT = {"username": "me", "password": "pass"}
# the same as htpasswd -B writes it
USERS = "me:$2y$05$WJhQlqPvFr8Pat7Ozsc7Ke4LWzeo.cMoZUILMjxcQiVxfckXILlae\n"


class Registry:
    """One for a run of the tests.

    Attributes:
        address: What begins the names of its images.
    """

    def __init__(self, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (directory / "users").write_text(USERS)
        (directory / "config.yml").write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {directory}/data}}}}\n"
            f"http: {{addr: {self.address}}}\n"
            f"auth: {{htpasswd: {{realm: test, path: {directory}/users}}}}\nlog: {{level: error}}\n"
        )
        program = shutil.which("docker-registry")
        if program is None:
            pytest.skip("Debian's docker-registry is not installed")
        self.process = subprocess.Popen(
            [program, "serve", directory / "config.yml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        host, port = self.address.split(":")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                break
            time.sleep(0.05)

    def close(self):
        self.process.terminate()
        self.process.wait(60)

    def log_in(self, directory):
        """Write what `docker login` writes into a directory for DOCKER_CONFIG."""
        known = base64.b64encode(b"me:pass").decode()
        content = {"auths": {self.address: {"auth": known}}}
        (directory / "config.json").write_text(json.dumps(content))

    @contextlib.contextmanager
    def pushed(self, engine_host, size=3_000_000):
        """Give the name of an image of random bytes that the registry has and the engine has not."""
        file = BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            info = tarfile.TarInfo("data")
            info.size = size
            tar.addfile(info, BytesIO(os.urandom(size)))
        repository = f"{self.address}/{new_name()}"
        client = sdk.APIClient(base_url=engine_host, timeout=60)
        client.import_image_from_data(file.getvalue(), repository=repository, tag="1")
        answer = client.push(repository, tag="1", auth_config=ACCOUNT)
        assert "error" not in answer, answer
        client.remove_image(f"{repository}:1")
        try:
            yield f"{repository}:1"
        finally:
            with contextlib.suppress(sdk.errors.APIError):
                client.remove_image(f"{repository}:1", force=True)
            client.close()
