import json
import socket

import pytest

from support.commandline import Program


@pytest.fixture
def program(tmp_path):
    """The program in a folder with four tasks, whose answers are their numbers."""
    lines = [json.dumps({"id": f"t{n}", "prompt": "?", "answer": str(n)}) for n in range(4)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    return Program(tmp_path)


@pytest.fixture
def silent_endpoint():
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
