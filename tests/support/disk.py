"""A disk that can be full, broken, and cut from power at any point.

What is done to files below a directory through `os` is done, and written down call by call. From that list follows
what a crash after any call would have left: everything (the process died), or what was synced (the power failed).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from unittest import mock

import attrs

_PATCHED = ("open", "close", "write", "pwrite", "ftruncate", "fsync", "mkdir", "replace", "unlink")


@attrs.frozen
class Call:
    """One change that was asked of the disk; `note` is none, but a remark between them."""

    name: str
    path: str = ""
    node: int = -1
    at: int = 0
    data: bytes = b""


@attrs.frozen
class Short:
    """A write that takes only so many bytes."""

    size: int


class Disk:
    """Stands between a program and the files below `root`.

    Args:
        root: An existing, empty directory.
        fault: Asked before each call with its number, from 0, and the call: an errno to fail with, a `Short`, or
            None.
    """

    def __init__(self, root: Path, fault=lambda _number, _call: None):
        self.root, self._fault = os.path.realpath(root), fault
        self.calls: list[Call] = []
        self.count = 0
        self._nodes: dict[str, int] = {}
        self._files: dict[int, tuple[str, int]] = {}
        self._os = {name: getattr(os, name) for name in _PATCHED}

    @contextlib.contextmanager
    def installed(self):
        with contextlib.ExitStack() as stack:
            for name in _PATCHED:
                stack.enter_context(mock.patch.object(os, name, getattr(self, f"_{name}")))
            yield self

    def note(self, text):
        self.calls.append(Call("note", str(text)))

    def _name(self, path):
        name = os.path.relpath(os.path.abspath(path), self.root)
        return None if name.startswith("..") else name

    def _ask(self, call):
        """The bytes a call may write, all if None; OSError where it fails."""
        number, self.count = self.count, self.count + 1
        trouble = self._fault(number, call)
        if isinstance(trouble, Short):
            return trouble.size
        if trouble:
            raise OSError(trouble, os.strerror(trouble), call.path)
        return None

    def _open(self, path, flags, mode=0o777, **more):
        name = self._name(path)
        is_new = not os.path.exists(path)
        if name is not None and is_new and flags & os.O_CREAT:
            self._ask(Call("create", name))
        descriptor = self._os["open"](path, flags, mode, **more)
        if name is None:
            return descriptor
        if is_new:
            self._nodes[name] = len(self.calls)
            self.calls.append(Call("create", name, self._nodes[name]))
        elif flags & os.O_TRUNC:
            self.calls.append(Call("truncate", name, self._nodes[name], 0))
        self._files[descriptor] = (name, self._nodes.get(name, -1))
        return descriptor

    def _close(self, descriptor):
        self._files.pop(descriptor, None)
        self._os["close"](descriptor)

    def _write(self, descriptor, data):
        if descriptor not in self._files:
            return self._os["write"](descriptor, data)
        return self._put(descriptor, data, os.fstat(descriptor).st_size, "write")

    def _pwrite(self, descriptor, data, at):
        if descriptor not in self._files:
            return self._os["pwrite"](descriptor, data, at)
        return self._put(descriptor, data, at, "pwrite", at)

    def _put(self, descriptor, data, at, function, *args):
        name, node = self._files[descriptor]
        data = bytes(data)
        size = self._ask(Call("write", name, node, at, data))
        written = self._os[function](descriptor, data[:size], *args)
        self.calls.append(Call("write", name, node, at, data[:written]))
        return written

    def _ftruncate(self, descriptor, size):
        if descriptor not in self._files:
            return self._os["ftruncate"](descriptor, size)
        name, node = self._files[descriptor]
        self._ask(Call("truncate", name, node, size))
        self._os["ftruncate"](descriptor, size)
        return self.calls.append(Call("truncate", name, node, size))

    def _fsync(self, descriptor):
        if descriptor not in self._files:
            return self._os["fsync"](descriptor)
        name, node = self._files[descriptor]
        call = Call("sync", name, node)
        self._ask(call)
        return self.calls.append(call)

    def _mkdir(self, path, *args, **more):
        name = self._name(path)
        if name is not None and not os.path.exists(path):
            self._ask(Call("mkdir", name))
        self._os["mkdir"](path, *args, **more)
        if name is not None:
            self.calls.append(Call("mkdir", name))

    def _replace(self, source, target, **more):
        old, new = self._name(source), self._name(target)
        if old is not None:
            self._ask(Call("rename", old, data=new.encode()))
        self._os["replace"](source, target, **more)
        if old is not None:
            self._nodes[new] = self._nodes.pop(old)
            self.calls.append(Call("rename", old, data=new.encode()))

    def _unlink(self, path, **more):
        name = self._name(path)
        if name is not None and os.path.lexists(path):
            self._ask(Call("unlink", name))
        self._os["unlink"](path, **more)
        if name is not None:
            self._nodes.pop(name, None)
            self.calls.append(Call("unlink", name))


# --- what is left after a crash


@attrs.define
class _Node:
    data: bytes = b""
    synced: bytes = b""


class Remains:
    """The disk as a list of calls leaves it: what programs see, and what would survive a power cut."""

    def __init__(self, calls):
        self._nodes: dict[int, _Node] = {}
        self._seen: dict[str, int | None] = {}
        """Name -> node, None for a directory."""
        self._durable: dict[str, int | None] = {}
        for call in calls:
            getattr(self, f"_{call.name}")(call)

    def after_kill(self):
        """Everything that was done: path -> content, None for a directory."""
        return {name: self._content(node, "data") for name, node in self._seen.items()}

    def after_power_cut(self):
        """Names and contents that were synced, and no others."""
        return self._reachable(
            {name: self._content(node, "synced") for name, node in self._durable.items()}
        )

    def after_power_cut_with_names(self):
        """Every name, but only the contents that were synced: a file may be there and empty."""
        return {name: self._content(node, "synced") for name, node in self._seen.items()}

    def after_power_cut_with_data(self):
        """Every content, but only the names that were synced."""
        return self._reachable(
            {name: self._content(node, "data") for name, node in self._durable.items()}
        )

    def _content(self, node, which):
        return None if node is None else getattr(self._nodes[node], which)

    @staticmethod
    def _reachable(files):
        return {
            name: content
            for name, content in files.items()
            if all(str(parent) in files for parent in Path(name).parents if str(parent) != ".")
        }

    def _note(self, call):
        pass

    def _mkdir(self, call):
        self._seen[call.path] = None

    def _create(self, call):
        self._nodes[call.node] = _Node()
        self._seen[call.path] = call.node

    def _write(self, call):
        node = self._nodes[call.node]
        node.data = node.data[: call.at] + call.data + node.data[call.at + len(call.data) :]

    def _truncate(self, call):
        node = self._nodes[call.node]
        node.data = node.data[: call.at]

    def _rename(self, call):
        self._seen[call.data.decode()] = self._seen.pop(call.path)

    def _unlink(self, call):
        self._seen.pop(call.path, None)

    def _sync(self, call):
        if call.node >= 0:
            self._nodes[call.node].synced = self._nodes[call.node].data
            return

        def is_here(name):
            return os.path.dirname(name) == ("" if call.path == "." else call.path)

        for name in [name for name in self._durable if is_here(name)]:
            del self._durable[name]
        self._durable |= {name: node for name, node in self._seen.items() if is_here(name)}


def crashes(calls):
    """Yield what each crash leaves: (how, number of calls done, files), equal ones once.

    A write that is under way may have got any part of it to the disk: nothing, one byte, half, all but one.
    """
    known = set()
    for number in range(len(calls) + 1):
        for how, done in _variants(calls, number):
            remains = Remains(done)
            for name, files in (
                (f"killed{how}", remains.after_kill()),
                (f"power cut{how}", remains.after_power_cut()),
                (f"power cut{how}, names kept", remains.after_power_cut_with_names()),
                (f"power cut{how}, data kept", remains.after_power_cut_with_data()),
            ):
                key = (notes(calls[:number]), tuple(sorted(files.items())))
                if key not in known:
                    known.add(key)
                    yield name, number, files


def notes(calls):
    """What was noted so far."""
    return tuple(call.path for call in calls if call.name == "note")


def _variants(calls, number):
    yield "", calls[:number]
    if number < len(calls) and calls[number].name == "write":
        call = calls[number]
        for size in sorted({1, len(call.data) // 2, len(call.data) - 1}):
            if 0 < size < len(call.data):
                torn = attrs.evolve(call, data=call.data[:size])
                yield f" in a write ({size} of {len(call.data)})", [*calls[:number], torn]


def lay_out(files, directory):
    """Make files in an empty directory."""
    for name, content in sorted(files.items()):
        path = directory / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
