"""The images of a run: which it is to be, whether it can be had, and having it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.components.environments.docker.progress import Told
from agentcompass.containers.builds import Build
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from agentcompass.errors import PreflightError

MAX_LOOKED_UP: Final = 16
"""With more images to pull their registries are not asked beforehand whether they have them: they count the questions."""


@final
class Supply:
    """Gets images as the parameters say.

    Args:
        params: The user's.
    """

    def __init__(self, params: DockerParams) -> None:
        self._params = params
        self._pulled: set[str] = set()

    async def check(self, images: Images, names: Collection[str]) -> frozenset[str]:
        """Return those images that must be pulled or built; see `Environment.check_images`.

        Registries are asked for the images to pull unless these are many.

        Raises:
            PreflightError: There are some that cannot be had, each named with the reason.
            DockerError: The engine does not answer.
        """
        problems: dict[str, str] = {}
        missing: set[str] = set()
        for name in sorted(names):
            try:
                if not await self._is_there(images, name):
                    missing.add(name)
            except DockerError as error:
                if error.code not in ("no-such-image", "build-failed", "bad-request"):
                    raise
                problems[name] = error.message
            except OSError as error:
                problems[name] = f"{self._params.build} cannot be read: {error}"
        await self._look_up(images, missing, problems)
        if problems:
            lines = [f"  {name}: {why}" if name else f"  {why}" for name, why in problems.items()]
            raise PreflightError(
                "these images cannot be had:\n" + "\n".join(lines),
                hint="Check their names, `docker login` for private ones, and the parameters image, build and pull.",
            )
        return frozenset(missing)

    async def _is_there(self, images: Images, task_image: str) -> bool:
        name = task_image or self._params.image
        if name is None:
            return await images.is_built(self._build())
        if await images.inspect(name) is not None:
            return True
        if self._params.pull == "never":
            raise DockerError(
                f"there is no image {name} and none may be pulled", code="no-such-image"
            )
        return False

    async def _look_up(
        self, images: Images, missing: Collection[str], problems: dict[str, str]
    ) -> None:
        names = {task_image: task_image or self._params.image for task_image in missing}
        to_pull = {task_image: name for task_image, name in names.items() if name is not None}
        if len(to_pull) > MAX_LOOKED_UP:
            return

        async def look(task_image: str, name: str) -> None:
            try:
                await images.check_registry(name)
            except DockerError as error:
                problems[task_image] = error.message

        async with trio.open_nursery() as nursery:
            for task_image, name in to_pull.items():
                nursery.start_soon(look, task_image, name)

    async def bring(
        self, images: Images, task_image: str | None, tell: Callable[[str], None]
    ) -> str:
        """Return the name of an image that the engine has then.

        Args:
            images: Of the engine.
            task_image: What the task names; None or empty: nothing.
            tell: Takes a line for people, now and then.

        Raises:
            DockerError: It cannot be had.
        """
        name = task_image or self._params.image
        if name is None:
            told = Told(f"building the image of {self._params.build}", tell)
            return await images.build(self._build(), progress=told)
        pull = self._params.pull
        if pull == "always" and name in self._pulled:
            pull = "missing"
        told = Told(f"pulling the image {name}", tell)
        await images.ensure(name, pull=pull, platform=self._params.platform, progress=told)
        self._pulled.add(name)
        return name

    def _build(self) -> Build:
        if self._params.build is None:
            raise DockerError(
                "a task names no image, and neither does the parameter image",
                code="no-such-image",
                hint="Give the parameter image, or build.",
            )
        context = Path(self._params.build).expanduser().resolve()
        return Build(context=context, platform=self._params.platform)
