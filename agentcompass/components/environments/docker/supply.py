"""The images of a run: which it is to be, whether it can be had, and having it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, final

import attrs

from agentcompass.components.base import ImageBuild, ImageSource
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.components.environments.docker.progress import Told
from agentcompass.containers.builds import Build
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from agentcompass.containers.names import is_image_name
from agentcompass.containers.together import together
from agentcompass.errors import PreflightError

T = TypeVar("T")

MAX_LOOKED_UP: Final = 16
"""With more images to pull their registries are not asked beforehand whether they have them: they count the questions."""
AT_ONCE: Final = 8
"""Images that are looked at side by side."""
BUILT_INSTEAD: Final = ("no-such-image", "registry-auth-failed", "forbidden", "pull-failed")
"""Codes of a failed pull after which an image is built, if that can be done: it is not there, not for this user, or its
registry gave no answer. Not those that may pass (too many pulls) or that a build would meet too (a full disk)."""
_UNUSABLE: Final = ("no-such-image", "build-failed", "bad-request")
"""Codes that tell of one image, and not of the engine."""


@final
class Supply:
    """Gets images as the parameters say.

    Args:
        params: The user's.
    """

    def __init__(self, params: DockerParams) -> None:
        self._params = params
        self._pulled: set[str] = set()
        self._built_instead: set[ImageSource] = set()
        """That could not be pulled, which is said once and not tried again in this run."""

    def chosen(self, source: ImageSource) -> ImageSource:
        """Return where an image really comes from: as a task says, else as the user says.

        Raises:
            DockerError: Nobody says, or the name is none (code `no-such-image`).
        """
        if source.image is None and source.build is None:
            source = attrs.evolve(source, image=self._params.image, build=self._own_build())
        if source.build is not None and self._params.task_images == "built":
            source = attrs.evolve(source, image=None)
        if source.image is None and source.build is None:
            raise DockerError(
                "a task names no image, and neither does the parameter image",
                code="no-such-image",
                hint="Give the parameter image, or build.",
            )
        if source.image is not None and not is_image_name(source.image):
            raise DockerError(
                f"{source.image[:200]!r} is no name of an image", code="no-such-image"
            )
        return source

    def _own_build(self) -> ImageBuild | None:
        if self._params.build is None:
            return None
        return ImageBuild(context=Path(self._params.build).expanduser().resolve())

    async def check(
        self, images: Images, sources: Collection[ImageSource]
    ) -> Mapping[ImageSource, int | None]:
        """Return sizes in bytes, None of what must be pulled or built; see `Environment.check_images`.

        Registries are asked for the images to pull unless these are many.

        Raises:
            PreflightError: There are some that cannot be had, each named with the reason.
            DockerError: The engine does not answer.
        """
        sizes: dict[ImageSource, int | None] = {}
        problems: dict[str, str] = {}

        async def look(source: ImageSource) -> None:
            try:
                sizes[source] = await self._size(images, source)
            except DockerError as error:
                if error.code not in _UNUSABLE:
                    raise
                problems[source.name] = error.message

        async def look_up(source: ImageSource) -> None:
            try:
                await images.check_registry(str(source.image))
            except DockerError as error:
                problems[source.name] = error.message

        await together(*(partial(look, source) for source in sources), at_once=AT_ONCE)
        pulled = [one for one in sources if sizes.get(one, 0) is None and one.build is None]
        if len(pulled) <= MAX_LOOKED_UP:
            await together(*(partial(look_up, source) for source in pulled))
        if problems:
            lines = [
                f"  {why}" if why.endswith(name) else f"  {name}: {why}"
                for name, why in sorted(problems.items())
            ]
            raise PreflightError(
                "these images cannot be had:\n" + "\n".join(lines),
                hint="Check their names, `docker login` for private ones, and the parameters image, build and pull.",
            )
        return sizes

    async def _size(self, images: Images, source: ImageSource) -> int | None:
        found = None
        if source.image is not None:
            found = await images.inspect(source.image)
            if found is None and source.build is None and self._params.pull == "never":
                raise DockerError(
                    f"there is no image {source.image} and none may be pulled", code="no-such-image"
                )
        if found is None and source.build is not None:
            # Also where it is to be pulled: whether it could be built is better known now.
            built = await _reading(source.build, images.inspect_built(self._build(source)))
            if source.image is None or source in self._built_instead:
                found = built
        return None if found is None else int(found.get("Size") or 0)

    async def bring(self, images: Images, source: ImageSource, tell: Callable[[str], None]) -> str:
        """Return the name of an image that the engine has then.

        Args:
            images: Of the engine.
            source: As `chosen` gave it.
            tell: Takes a line for people, now and then.

        Raises:
            DockerError: It cannot be had.
        """
        if source.image is not None and source not in self._built_instead:
            try:
                return await self._pull(images, source.image, source.platform, tell)
            except DockerError as error:
                if source.build is None or error.code not in BUILT_INSTEAD:
                    raise
                if source not in self._built_instead:
                    self._built_instead.add(source)
                    tell(f"{error.message.splitlines()[0]}; {source.build.name} is built instead")
        assert source.build is not None  # `chosen` has seen to it
        told = Told(f"building the image of {source.build.name}", tell)
        building = images.build(
            self._build(source), timeout_seconds=source.build.timeout_seconds, progress=told
        )
        return await _reading(source.build, building)

    async def _pull(
        self, images: Images, name: str, platform: str | None, tell: Callable[[str], None]
    ) -> str:
        pull = self._params.pull
        if pull == "always" and name in self._pulled:
            pull = "missing"
        told = Told(f"pulling the image {name}", tell)
        platform = self._params.platform or platform
        await images.ensure(name, pull=pull, platform=platform, progress=told)
        self._pulled.add(name)
        return name

    def _build(self, source: ImageSource) -> Build:
        build = source.build
        assert build is not None  # whoever asks has looked
        return Build(
            context=build.context,
            dockerfile=build.dockerfile,
            args=dict(build.args),
            target=build.target,
            platform=self._params.platform or source.platform,
        )


async def _reading(build: ImageBuild, work: Awaitable[T]) -> T:
    """Await what reads the files of a build; raise DockerError if that cannot be done."""
    try:
        return await work
    except OSError as error:
        raise DockerError(
            f"{build.context} cannot be read: {error.strerror or error}", code="build-failed"
        ) from error
