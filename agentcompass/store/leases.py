"""The ledger on disk: one small file for each sandbox that may exist."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, final

from agentcompass.records import Lease
from agentcompass.regular import read_regular
from agentcompass.store import codec, jsonl
from agentcompass.store.files import explained, replace_file
from agentcompass.store.layout import RunPaths, find_run_dirs, safe_name

_log = logging.getLogger("agentcompass.store")

OnCorrupt: TypeAlias = Callable[[Path, str], None]
"""Told of a lease file that cannot be read, and why."""


def _warn(path: Path, reason: str) -> None:
    _log.warning("lease %s cannot be read: %s", path, reason)


@final
class LeaseBook:
    """The leases of one run.

    A lease survives its process, however that dies. It is not synced: a power cut, which it may not survive, ends
    local sandboxes as well.

    Args:
        leases_dir: Made with the first lease; what it is in is there.
    """

    def __init__(self, leases_dir: Path) -> None:
        self.leases_dir = leases_dir

    def write(self, lease: Lease) -> None:
        """Note that a sandbox may exist from now on, or change what is noted.

        Raises:
            StoreError: It could not be noted: no sandbox may be made.
        """
        path = self._path(lease.id)
        with explained("write", path):
            self.leases_dir.mkdir(exist_ok=True)
            replace_file(path, codec.encode_lease(lease), sync=False)

    def remove(self, lease_id: str) -> None:
        """Note that a sandbox is gone; doing it twice is fine.

        Raises:
            StoreError: The file cannot be removed.
        """
        path = self._path(lease_id)
        with explained("remove", path):
            path.unlink(missing_ok=True)

    def list(self, on_corrupt: OnCorrupt = _warn) -> tuple[Lease, ...]:
        """Return all leases, by file name."""
        return tuple(lease for _path, lease in _read(self.leases_dir, on_corrupt))

    def _path(self, lease_id: str) -> Path:
        return self.leases_dir / f"{safe_name(lease_id)}.json"


def find_leases(results_dir: Path, on_corrupt: OnCorrupt = _warn) -> Iterator[tuple[Path, Lease]]:
    """Yield every lease below a results root, or of one run directory, with the path of its file."""
    for run_dir in find_run_dirs(results_dir):
        yield from _read(RunPaths(run_dir).leases_dir, on_corrupt)


def _read(leases_dir: Path, on_corrupt: OnCorrupt) -> Iterator[tuple[Path, Lease]]:
    try:
        paths = sorted(path for path in leases_dir.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return
    except OSError as error:
        on_corrupt(leases_dir, error.strerror or str(error))
        return
    for path in paths:
        try:
            lease = codec.decode_lease(jsonl.decode(read_regular(path)))
        except FileNotFoundError:  # removed at this moment
            continue
        except (OSError, ValueError) as error:
            on_corrupt(path, str(error))
        else:
            yield path, lease
