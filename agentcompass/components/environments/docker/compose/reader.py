"""From a Compose file to a project, or one error that names all that is wrong in it. Blocking functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker.compose.mounts import LOG_VOLUME
from agentcompass.components.environments.docker.compose.project import Mount, Project, Service
from agentcompass.components.environments.docker.compose.service import DEFAULT_NETWORK, service_of
from agentcompass.components.environments.docker.compose.values import Reading
from agentcompass.components.environments.docker.compose.variables import CLIENT_IMAGE, standard
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, SandboxError
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Written, report, report_key
from agentcompass.spec.yaml import load_file

MAIN: Final = "main"
OLD_MAIN: Final = "client"
"""What Terminal-Bench called it, before."""
_IMPLICIT: Final = Service(name=MAIN, networks={DEFAULT_NETWORK: (MAIN,)})
"""The sandbox of a file that only says what is beside it."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}")
_TOP: Final = ("services", "networks", "volumes", "version", "name")
_TOP_REFUSED: Final = {
    "configs": "configs are not read: mount a file of the task's directory",
    "include": "other files are not read",
    "secrets": "secrets are not read: mount a file of the task's directory",
}
_OF_THE_MACHINE: Final = "would be the machine's, and not the sandbox's own"
_NETWORK_KEYS: Final = ("driver", "internal", "labels", "name", "attachable", "driver_opts")
_NETWORK_REFUSED: Final = {
    "ipam": "addresses are the engine's choice: several sandboxes have this network at once",
    "enable_ipv6": "addresses are the engine's choice",
}
_VOLUME_KEYS: Final = ("driver", "labels", "name")
_VOLUME_REFUSED: Final = {"driver_opts": f"a volume with options {_OF_THE_MACHINE}"}
_LOG_PLACES: Final = {
    f"{LOG_VOLUME}{name}": f"/logs/{name}" for name in ("verifier", "agent", "artifacts")
}
"""Where the sandbox itself has the directories that others may mount too."""


def read_project(plan: SandboxPlan) -> Project:
    """Return what the Compose file of a plan says.

    Raises:
        SandboxError: Something in it cannot be used (code `bad-compose`); the message has a line for each, with its place.
    """
    assert plan.compose is not None  # whoever calls has looked
    try:
        return _read(plan, plan.compose.resolve())
    except (ConfigurationError, OSError, RuntimeError) as error:
        raise SandboxError(
            f"the Compose file of the task cannot be used:\n{error}",
            code="bad-compose",
            retryable=False,
            hint="docs/environments.md lists what is understood.",
        ) from error


def _read(plan: SandboxPlan, file: Path) -> Project:
    problems = Problems()
    document = load_file(file, "Compose file", problems)
    problems.raise_if_any()
    assert document is not None  # else there was a problem
    reading = Reading(directory=file.parent, variables={}, problems=problems)
    given = standard(plan, file.parent)
    reading = attrs.evolve(reading, variables={**plan.env, **given})
    own = reading.variables_of(document, ".env", is_required=False)
    reading = attrs.evolve(reading, variables={**own, **plan.env, **given})
    document = reading.replaced(document)
    reading.known(document, _TOP, _TOP_REFUSED)
    services = _services(reading, document)
    networks = _networks(reading, document)
    _check(reading, document, services, networks)
    problems.raise_if_any()
    main = services.pop(_main(services), Service(name=MAIN, networks={DEFAULT_NETWORK: (MAIN,)}))
    return _project(file, main, tuple(services.values()), networks, reading.notes)


# --- sections


def _services(reading: Reading, document: Written) -> dict[str, Service]:
    section = document.get("services")
    if section is None or not section.is_mapping:
        reading.refuse(document, "has no services")
        return {}
    found = {}
    for name, node in section.items():
        if not _NAME.fullmatch(name):
            report_key(reading.problems, node, "is no name of a service")
        elif (profiles := node.get("profiles")) is not None and reading.texts(profiles) != ():
            reading.notes.append(f"the service {name} is left out: it belongs to a profile")
        else:
            found[name] = service_of(reading, name, node)
    return found


def _networks(reading: Reading, document: Written) -> Mapping[str, bool]:
    """Every network, with whether it has no way out."""
    found = {DEFAULT_NETWORK: False}
    for name, node in _declared(reading, document, "networks"):
        reading.known(node, (*_NETWORK_KEYS, "external"), _NETWORK_REFUSED)
        driver = node.get("driver")
        if driver is not None and reading.text(driver) not in ("bridge", "default", ""):
            reading.refuse(driver, f"this network {_OF_THE_MACHINE}")
        found[name] = bool(reading.some(node.get("internal"), reading.flag))
    return found


def _volumes(reading: Reading, document: Written) -> set[str]:
    found = set()
    for name, node in _declared(reading, document, "volumes"):
        reading.known(node, (*_VOLUME_KEYS, "external"), _VOLUME_REFUSED)
        driver = node.get("driver")
        if driver is not None and reading.text(driver) not in ("local", "default", ""):
            reading.refuse(driver, f"this volume {_OF_THE_MACHINE}")
        found.add(name)
    return found


def _declared(reading: Reading, document: Written, key: str) -> Iterator[tuple[str, Written]]:
    section = document.get(key)
    for name, node in () if section is None else section.items():
        if not _NAME.fullmatch(name):
            report_key(reading.problems, node, "is no name")
            continue
        external = node.get("external")
        if external is not None and (external.is_mapping or reading.flag(external)):
            reading.refuse(external, f"what is external {_OF_THE_MACHINE}")
        yield name, node


# --- what belongs together


def _check(
    reading: Reading,
    document: Written,
    services: Mapping[str, Service],
    networks: Mapping[str, bool],
) -> None:
    volumes = _volumes(reading, document)
    main = _main(services)
    for name, service in services.items():
        known = _Known(services={*services, main}, networks=set(networks), volumes=volumes)
        for key, sentence in _loose_ends(service, known, is_main=name == main):
            report(reading.problems, document, sentence, "services", name, key)
    for name in _in_circles(services):
        report(reading.problems, document, "waits for itself", "services", name, "depends_on")


@frozen(kw_only=True)
class _Known:
    services: set[str]
    networks: set[str]
    volumes: set[str]


def _loose_ends(service: Service, known: _Known, *, is_main: bool) -> Iterator[tuple[str, str]]:
    """The keys of a service that name what there is not, and what to say about it."""
    for other in set(service.depends_on) - known.services:
        yield "depends_on", f"{other!r} is no service of this file"
    for network in set(service.networks or ()) - known.networks:
        yield "networks", f"{network!r} is no network of this file"
    named = {mount.volume for mount in service.mounts if mount.volume}
    for volume in {name for name in named if not name.startswith(LOG_VOLUME)} - known.volumes:
        yield "volumes", f"{volume!r} is no volume of this file"
    if not is_main and service.image is None and service.build is None:
        yield "image", "an image or a build is needed"
    if is_main and service.is_read_only:
        yield "read_only", "the sandbox itself must be writable"


def _in_circles(services: Mapping[str, Service]) -> list[str]:
    left = dict(services)
    while free := [name for name, one in left.items() if not set(one.depends_on) & set(left)]:
        for name in free:
            del left[name]
    return list(left)


def _main(services: Mapping[str, Service]) -> str:
    """The service that is the sandbox: `main`, or what Terminal-Bench calls the client."""
    clients = (name for name, service in services.items() if service.image == CLIENT_IMAGE)
    known = (name for name in (MAIN, *clients, OLD_MAIN) if name in services)
    return next(known, MAIN)


def _project(
    file: Path,
    main: Service,
    sides: tuple[Service, ...],
    networks: Mapping[str, bool],
    notes: list[str],
) -> Project:
    shared = {
        mount.volume
        for service in sides
        for mount in service.mounts
        if mount.volume and mount.volume.startswith(LOG_VOLUME)
    }
    main = attrs.evolve(main, mounts=tuple(_of_main(main, shared)))
    if not sides and DEFAULT_NETWORK in (main.networks or ()):
        main = attrs.evolve(main, networks=None)  # nobody else is there
    services = (*sides, main)
    used = {name for service in services for name in service.networks or ()}
    volumes = {mount.volume for service in services for mount in service.mounts if mount.volume}
    return Project(
        file=file,
        main=main,
        sides=sides,
        networks={name: is_internal for name, is_internal in networks.items() if name in used},
        volumes=tuple(sorted(volumes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _of_main(main: Service, shared: set[str]) -> Iterator[Mount]:
    """What the sandbox mounts: a directory of logs only if another service has it too, else it is one as any other."""
    mounted = {mount.target for mount in main.mounts}
    for mount in main.mounts:
        if not (mount.volume or "").startswith(LOG_VOLUME) or mount.volume in shared:
            yield mount
    for volume, target in _LOG_PLACES.items():
        if volume in shared and target not in mounted:
            yield Mount(target=target, volume=volume)
