"""Gets a data set with `huggingface_hub` and reads its tables with `pyarrow`, in a process that can be ended.

Input: a JSON object with `target` (a file), and either `repository`, `revision` and `split`, or `path` (of a parquet file).
Makes `target`: a JSON object in its first line with `commit`, `rows` and the tables' `sha256`, then a row in each line.
Output: a JSON object, empty or with `error` (the exception's class) and `message`.

The hub's own cache is used, as by every program of this user, and HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the like mean
what they mean there. Its client checks sizes only; here each file is checked against the checksum that it is named after.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LUMP_BYTES = 1 << 20
TRIES = 5
PASSING = {
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "WriteError",
    "ConnectionError",
    "ChunkedEncodingError",
}
"""Exceptions of the HTTP client that may not come again."""


def main() -> None:
    """Answer one request."""
    asked = json.load(sys.stdin)
    try:
        if "path" in asked:
            commit, files = "", [Path(asked["path"])]
        else:
            commit, files = _downloaded(asked["repository"], asked["revision"], asked["split"])
        _write(Path(asked["target"]), commit, files)
        answer = {}
    except Exception as error:  # noqa: BLE001  # whatever the packages raise is told to whoever waits
        answer = {"error": type(error).__name__, "message": str(error)}
    json.dump(answer, sys.stdout)


def _downloaded(repository: str, revision: str, split: str) -> tuple[str, list[Path]]:
    """Return the commit and the tables of a split, whole and right."""
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download  # noqa: PLC0415  # slow

    pattern = f"data/{split}-*.parquet"
    get_all = functools.partial(
        snapshot_download,
        repository,
        repo_type="dataset",
        revision=revision,
        allow_patterns=[pattern],
    )
    folder = Path(_persist(get_all))
    files = sorted(folder.glob(pattern))
    if not files:
        there = HfApi().list_repo_files(repository, repo_type="dataset", revision=revision)
        tables = ", ".join(name for name in there if name.endswith(".parquet"))
        raise FileNotFoundError(f"it has no {pattern}, but {tables or 'no parquet files'}")
    for file in files:
        if _is_right(file):
            continue
        name = file.relative_to(folder).as_posix()
        # what is in the cache is damaged: a link to it, or what the link leads to
        file.resolve().unlink(missing_ok=True)
        get_one = functools.partial(
            hf_hub_download, repository, name, repo_type="dataset", revision=folder.name
        )
        again = _persist(functools.partial(get_one, force_download=True))
        if not _is_right(Path(again)):
            Path(again).resolve().unlink(missing_ok=True)
            raise ValueError(f"{name} has not the checksum that it was published with")
    return folder.name, files


def _persist(download: Callable[[], str]) -> str:
    """Download, again if the connection broke: the client goes on where it ended, but only if it is told to."""
    for failures in itertools.count(1):
        try:
            return download()
        except Exception as error:
            status = getattr(getattr(error, "response", None), "status_code", None)
            is_passing = type(error).__name__ in PASSING or status in {429, 500, 502, 503, 504}
            if not is_passing or failures == TRIES:
                raise
            time.sleep(0.5 * 2**failures)
    raise AssertionError


def _is_right(file: Path) -> bool:
    """Whether a file of the cache has the content that its blob is named after; true where it is named otherwise."""
    blob = file.resolve()
    name, size = blob.name, blob.stat().st_size
    if len(name) == 64:
        hasher = hashlib.sha256()
    elif len(name) == 40:
        hasher = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    else:
        return True
    _feed(hasher, blob)
    return hasher.hexdigest() == name


def _feed(hasher: Any, file: Path) -> None:
    with file.open("rb") as stream:
        while lump := stream.read(LUMP_BYTES):
            hasher.update(lump)


def _write(target: Path, commit: str, files: list[Path]) -> None:
    hasher = hashlib.sha256()
    for file in files:
        _feed(hasher, file)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as stream:
            head = {"commit": commit, "rows": _count(files), "sha256": hasher.hexdigest()}
            stream.write(json.dumps(head) + "\n")
            for row in _rows(files):
                stream.write(json.dumps(row, default=str) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _count(files: list[Path]) -> int:
    from pyarrow import parquet  # noqa: PLC0415  # slow

    return sum(parquet.read_metadata(file).num_rows for file in files)


def _rows(files: list[Path]) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet  # noqa: PLC0415  # slow

    for file in files:
        with parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=100):
                yield from batch.to_pylist()


if __name__ == "__main__":
    main()
