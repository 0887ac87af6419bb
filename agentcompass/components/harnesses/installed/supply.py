"""Bringing a program: kept in `data_dir`, shown to sandboxes where that costs nothing, uploaded where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import attrs

from agentcompass.components.base import LoadContext, SandboxPlan, Session
from agentcompass.components.harnesses.installed.place import Place
from agentcompass.components.harnesses.installed.published import Machine, Published, this_machine
from agentcompass.datasets.npm import obtain_package
from agentcompass.errors import PreflightError, SandboxError

FOLDER: Final = "/opt/agentcompass"
"""Where sandboxes find what is shown to them."""


@final
class Supply:
    """One version of one program, for all attempts of a request.

    Args:
        published: The program.
        version: Of it.
    """

    def __init__(self, published: Published, version: str) -> None:
        self._published, self._version = published, version
        self._target = f"{FOLDER}/{published.name}-{version}"
        self._context: LoadContext | None = None
        self._here: dict[Machine, Path] = {}

    async def fetch(self, context: LoadContext) -> None:
        """Have the program for the processor of this machine, which is that of most sandboxes.

        Raises:
            PreflightError: It cannot be had.
        """
        self._context = context
        if self._published.package(self._version, this_machine()) is not None:
            await self._directory(this_machine())

    def equip(self, plan: SandboxPlan) -> SandboxPlan:
        """Return a plan by which a sandbox finds the program, if its environment can show it without a copy."""
        directory = self._here.get(this_machine())
        if directory is None:
            return plan
        return attrs.evolve(plan, shared={**plan.shared, self._target: directory})

    def places(self) -> list[str]:
        """Return where the program is in a sandbox if nothing has to be uploaded: where it is shown, or of this machine."""
        here = self._here.get(this_machine())
        directories = [self._target, *([str(here)] if here else ())]
        return [f"{directory}/{self._published.executable}" for directory in directories]

    async def bring(self, session: Session, place: Place) -> str:
        """Return where the program is in a sandbox, after uploading it if it is not there.

        Raises:
            SandboxError: It is not published for the sandbox's machine (code `agent-unavailable`), or cannot be had for it.
        """
        is_usual = place.machine == this_machine()
        if is_usual and place.program is not None:
            return place.program
        try:
            directory = await self._directory(place.machine)
        except PreflightError as error:
            raise SandboxError(error.message, code="agent-unavailable", hint=error.hint) from error
        target = f"{place.home}/{self._published.name}"
        await session.upload(directory, target)
        return f"{target}/{self._published.executable}"

    async def _directory(self, machine: Machine) -> Path:
        package = self._published.package(self._version, machine)
        if package is None or self._context is None:
            known = ", ".join(sorted(self._published.builds))
            raise PreflightError(
                f"{self._published.name} is published for {known}, not for {machine}",
                hint="Choose another image; or one with the program, and the harness parameter install: image.",
            )
        if machine not in self._here:
            self._here[machine] = await obtain_package(
                package,
                self._context.data_dir,
                tell=self._context.note,
                may_download=self._context.may_download,
            )
        return self._here[machine]
