"""What the `docker` package knows better: registry credentials, and which files belong to a build. Blocking functions.

Imported here only, and only when it is needed: that takes a quarter of a second. Requests are not made through it,
since a cancelled thread goes on waiting, and the engine with it.
"""

from __future__ import annotations

from pathlib import Path

from agentcompass.containers.errors import DockerError


def registry_auth(image: str) -> str | None:
    """Return the header value with the credentials for an image's registry; None if there are none.

    Reads the docker command's configuration (DOCKER_CONFIG or `~/.docker`), and asks its credential helpers.

    Raises:
        DockerError: They cannot be had (code `registry-auth-failed`).
    """
    from docker import auth, errors  # noqa: PLC0415  # see above

    try:
        registry, _name = auth.resolve_repository_name(image)
        found = auth.resolve_authconfig(auth.load_config(), registry)
        return str(auth.encode_header(found).decode()) if found else None
    except (errors.DockerException, OSError, ValueError) as error:
        raise _no_credentials(error) from error


def all_registry_auth() -> str | None:
    """Return the header value with the credentials for all registries, as a build needs it; None if there are none.

    Raises:
        DockerError: They cannot be had (code `registry-auth-failed`).
    """
    from docker import auth, errors  # noqa: PLC0415  # see above

    try:
        found = auth.load_config().get_all_credentials()
        return str(auth.encode_header(found).decode()) if found else None
    except (errors.DockerException, OSError, ValueError) as error:
        raise _no_credentials(error) from error


def context_files(context: Path, dockerfile: str) -> list[str]:
    """Return what belongs to a build, in order: all below a directory that its `.dockerignore` does not exclude.

    Args:
        context: The directory.
        dockerfile: Relative to it; always belongs.
    """
    from docker.utils import build  # noqa: PLC0415  # see above

    ignore = context / ".dockerignore"
    lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return sorted(build.exclude_paths(str(context), patterns, dockerfile=dockerfile))


def _no_credentials(error: Exception) -> DockerError:
    return DockerError(
        f"the credentials of the registries cannot be had: {error}", code="registry-auth-failed"
    )
