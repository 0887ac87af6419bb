"""The volumes of a service, in the short form (`./seed:/seed:ro`) and in the long one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from agentcompass.components.environments.docker.compose.project import Mount
from agentcompass.components.environments.docker.compose.values import Reading
from agentcompass.components.environments.docker.compose.variables import LOGS
from agentcompass.spec.tree import Written

LOG_VOLUME: Final = "agentcompass-logs-"
"""Begins the names of the volumes that stand for directories of logs."""
_MODES: Final = ("ro", "rw", "z", "Z", "cached", "consistent", "delegated", "nocopy")
_KEYS: Final = ("type", "source", "target", "read_only", "volume", "bind", "tmpfs", "consistency")
_REFUSED: Final = {"image": "files of an image cannot be mounted"}


def mounts_of(reading: Reading, node: Written) -> tuple[list[Mount], dict[str, str]]:
    """Return what is mounted, and what is held in memory: options by path.

    Args:
        reading: The file.
        node: The list.
    """
    mounts: list[Mount] = []
    tmpfs: dict[str, str] = {}
    for item in reading.items(node):
        if item.is_mapping:
            _long(reading, item, mounts, tmpfs)
        else:
            _short(reading, item, mounts)
    targets = [mount.target for mount in mounts] + list(tmpfs)
    for target in {target for target in targets if targets.count(target) > 1}:
        reading.refuse(node, f"{target} has more than one volume")
    return mounts, tmpfs


def tmpfs_of(reading: Reading, node: Written) -> Mapping[str, str]:
    """Return what is held in memory: options by path."""
    pairs = [text.partition(":") for text in reading.texts(node)]
    for target, _, _ in pairs:
        _check_target(reading, node, target)
    return {target: options for target, _, options in pairs}


def _short(reading: Reading, node: Written, mounts: list[Mount]) -> None:
    text = reading.text(node)
    source, has_source, rest = text.partition(":")
    target, _, mode = (rest if has_source else source).partition(":")
    modes = mode.split(",") if mode else []
    if odd := [one for one in modes if one not in _MODES]:
        reading.refuse(node, f"{odd[0]!r} is no option of a volume: those are {', '.join(_MODES)}")
    made = _mount(reading, node, source if has_source else "", target, is_read_only="ro" in modes)
    if made is not None:
        mounts.append(made)


def _long(reading: Reading, node: Written, mounts: list[Mount], tmpfs: dict[str, str]) -> None:
    reading.known(node, _KEYS, _REFUSED)
    given = {key: item for key, item in node.items() if key in _KEYS}
    kind = (
        reading.one_of(given["type"], ("volume", "bind", "tmpfs")) if "type" in given else "volume"
    )
    source = reading.some(given.get("source"), reading.text) or ""
    target = reading.some(given.get("target"), reading.text) or ""
    if kind == "tmpfs":
        size = given["tmpfs"].get("size") if "tmpfs" in given else None
        number = reading.some(size, reading.size)
        if _check_target(reading, node, target):
            tmpfs[target] = "" if number is None else f"size={number}"
        return
    if kind == "bind" and not _is_path(source):
        source = f"./{source}"
    is_read_only = bool(reading.some(given.get("read_only"), reading.flag))
    made = _mount(reading, node, source, target, is_read_only=is_read_only)
    if made is not None:
        mounts.append(made)


def _mount(
    reading: Reading, node: Written, source: str, target: str, *, is_read_only: bool
) -> Mount | None:
    if not _check_target(reading, node, target):
        return None
    if source.startswith(LOGS):
        name = PurePosixPath(source).relative_to(LOGS).as_posix().replace("/", "-")
        return Mount(target=target, is_read_only=is_read_only, volume=f"{LOG_VOLUME}{name}")
    if not _is_path(source):
        return Mount(target=target, is_read_only=is_read_only, volume=source or None)
    if source.endswith("docker.sock"):
        reading.refuse(node, "the socket of an engine would give the service the whole machine")
        return None
    if source.startswith("~"):
        reading.refuse(node, f"{source!r} is not in the task's directory")
        return None
    path = reading.below(node, source)
    if path is None:
        return None
    return Mount(target=target, is_read_only=is_read_only, path=path)


def _is_path(source: str) -> bool:
    return source.startswith(("/", ".", "~"))


def _check_target(reading: Reading, node: Written, target: str) -> bool:
    is_good = target.startswith("/") and ".." not in target.split("/") and target.strip("/") != ""
    if not is_good:
        reading.refuse(node, f"{target!r} is no absolute path in a container")
    return is_good
