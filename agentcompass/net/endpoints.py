"""The limiters of one run, one for each endpoint and key, kept in step with other runs on this machine.

As often as it matters, each run writes down how it stands and reads how the others do (`net.board`), in a worker
thread: no call waits for it, except the first one. What is shared by that: the window that was found, pauses, and the
requests and tokens per minute.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from agentcompass.errors import describe
from agentcompass.net.board import BoardError, Membership, board_dir, endpoint_hash
from agentcompass.net.endpoint_limits import Limits
from agentcompass.net.limits import EndpointLimiter
from agentcompass.net.pauses import Pauses
from agentcompass.net.shares import Company, Standing

_IDLE_SECONDS: Final = 4.0
"""Between two looks at the board while no calls are made: a sign of life. When calls are made again, there is a look."""
_ALONE_SECONDS: Final = 2.0
"""The same while calls are made, and nobody else is there; whoever comes sees the others, and waits until they have looked."""
_CALM_SECONDS: Final = 1.0
"""The same while others are there, and what each may do does not change."""
_BUSY_SECONDS: Final = 0.25
"""The same while that changes, or calls wait for others; it doubles with each look that brings no news."""
_URGENT_SECONDS: Final = 0.1
"""The same when something happened that others should know."""
_UNSEEN_SECONDS: Final = _ALONE_SECONDS + 0.25
"""What is used within so long of a look is not on the board if the process is killed."""
_HUNG_SECONDS: Final = 5.0
"""After so long the board's file system counts as hung."""
_LEAVE_SECONDS: Final = 1.0

_log = logging.getLogger("agentcompass.net")

_Told: TypeAlias = Sequence[tuple["_Shared", Standing]]


def users_board() -> Path:
    """Return the directory of the boards of this user; raises `BoardError`."""
    return board_dir(os.environ.get("XDG_RUNTIME_DIR"))


@attrs.define(eq=False)
class _Shared:
    """A limiter with its file on the board, which belongs to whichever thread looks at the board now."""

    limiter: EndpointLimiter
    topic: str
    membership: Membership | None = None
    is_wanted: bool = True
    """False: one who uses it does not want to share."""
    busy_seconds: float = _BUSY_SECONDS
    """Until the next look while calls are made in company."""

    @property
    def rest_seconds(self) -> float:
        """From one look to the next, as things are now."""
        if self.membership is None:
            return 0.0
        if self.limiter.is_idle:
            return _IDLE_SECONDS
        return _ALONE_SECONDS if self.limiter.is_alone else self.busy_seconds

    def heed(self, company: Company) -> None:
        """Tell the limiter, and see how long that holds."""
        is_news = self.limiter.heed(company)
        self.busy_seconds = _BUSY_SECONDS if is_news else min(_CALM_SECONDS, 2 * self.busy_seconds)


@final
class Endpoints:
    """The limiters of one run.

    Args:
        board: Gives the directory in which runs on this machine tell each other how they stand; called in a thread.
    """

    def __init__(self, board: Callable[[], Path] = users_board) -> None:
        self._board = board
        self._limiters: dict[tuple[str, str], EndpointLimiter] = {}
        self._shared: list[_Shared] = []
        self._is_running = False
        self._is_alone = False
        """Sharing has failed: every limiter is this run's own."""
        self._bell = trio.Event()
        self._is_urgent = False
        """Something has happened since the last look that others should know at once."""
        self._looked_at = -math.inf
        self._threads = trio.CapacityLimiter(1)
        self._n_hung = 0

    def limiter(
        self,
        server: str,
        key: str,
        limits: Limits,
        *,
        pauses: Pauses | None = None,
        is_shared: bool = True,
    ) -> EndpointLimiter:
        """Return the limiter of an endpoint, made when it is first asked for.

        Args:
            server: Scheme, host and port.
            key: With which it is used; it is written down nowhere.
            limits: Of one who uses it; the narrowest of all count.
            pauses: Of all its users here.
            is_shared: Whether other runs on this machine are heeded, and told; one user who does not want that is enough.
        """
        known = self._limiters.get((server, key))
        if known is not None:
            known.narrow(limits)
            for each in self._shared:
                each.is_wanted = each.is_wanted and (is_shared or each.limiter is not known)
            return known
        limiter = EndpointLimiter(limits, pauses=pauses, on_change=self._ring)
        self._limiters[server, key] = limiter
        if is_shared and not self._is_alone:
            self._shared.append(_Shared(limiter, endpoint_hash(server, key)))
            if self._is_running:
                limiter.hold()
            self._bell.set()
        return limiter

    def binding(self) -> dict[str, dict[str, Any]]:
        """Return how those endpoints are used at which calls wait now.

        Returns:
            The fields of `Use` as a JSON object, by host and port; of one that is used with several keys by a number too.
        """
        seen: Counter[str] = Counter()
        found = {}
        for (server, _), limiter in self._limiters.items():
            host = server.rpartition("//")[2]
            seen[host] += 1
            if limiter.waiting or limiter.pause_seconds:
                name = host if seen[host] == 1 else f"{host} ({seen[host]})"
                found[name] = attrs.asdict(limiter.use)
        return found

    async def keep_in_step(self) -> None:
        """Exchange word with the other runs on this machine, until cancelled."""
        self._is_running = True
        for each in self._shared:
            each.limiter.hold()
        try:
            while not self._is_alone:
                await self._wait_for_need()
                await self._exchange()
            for each in self._shared:  # one that was added meanwhile waits for word, too
                each.limiter.heed(Company())
            await trio.sleep_forever()
        finally:
            self._is_running = False
            told = [(each, each.limiter.standing().on_clock(-_ahead())) for each in self._shared]
            # behind whatever thread still looks: it must not find its file closed
            with trio.move_on_after(_LEAVE_SECONDS, shield=True):
                await trio.to_thread.run_sync(
                    _leave, told, abandon_on_cancel=True, limiter=self._threads
                )

    def _ring(self, is_urgent: bool) -> None:
        self._is_urgent |= is_urgent
        self._bell.set()

    async def _wait_for_need(self) -> None:
        """Wait until the board should be looked at."""
        while (due := self._looked_at + self._rest_seconds) > trio.current_time():
            with trio.move_on_at(due):
                await self._bell.wait()
                self._bell = trio.Event()  # what has changed may make it due earlier
        self._is_urgent = False

    @property
    def _rest_seconds(self) -> float:
        """From the last look to the next, as things are now; infinite where nobody shares anything."""
        rest = min((each.rest_seconds for each in self._shared), default=math.inf)
        return min(rest, _URGENT_SECONDS) if self._is_urgent else rest

    async def _exchange(self) -> None:
        self._looked_at = trio.current_time()
        told = [
            (each, each.limiter.standing(_UNSEEN_SECONDS).on_clock(-_ahead()))
            for each in self._shared
        ]
        heard = [Company()] * len(told)
        try:
            with trio.fail_after(_HUNG_SECONDS):
                heard = await trio.to_thread.run_sync(
                    self._look, told, abandon_on_cancel=True, limiter=self._threads
                )
            self._n_hung = 0
        except BoardError as error:
            self._give_up(str(error))
        except trio.TooSlowError:  # once, it may have been this process that stood still
            self._n_hung += 1
            if self._n_hung > 1:
                self._give_up("the file system does not answer")
        except Exception as error:  # noqa: BLE001  # whatever it is, sharing must not hurt a run
            self._give_up(describe(error))
        for (each, _), company in zip(told, heard, strict=True):
            each.heed(company.on_clock(_ahead()))
        self._shared = [each for each in self._shared if each.is_wanted or each.membership]

    def _give_up(self, why: str) -> None:
        _log.warning("model limits are not shared with other runs on this machine: %s", why)
        self._is_alone = True

    def _look(self, told: _Told) -> list[Company]:
        """Write and read the board; in a worker thread."""
        heard = []
        for each, standing in told:
            if each.is_wanted:
                each.membership = each.membership or Membership(self._board(), each.topic)
                heard.append(each.membership.exchange(standing))
            else:
                _leave([(each, standing)])
                heard.append(Company())
        return heard


def _leave(told: _Told) -> None:
    for each, standing in told:
        if each.membership is not None:
            each.membership.leave(standing)
            each.membership = None


def _ahead() -> float:
    """How far trio's clock is ahead of the one that all processes have in common."""
    return trio.current_time() - time.monotonic()
