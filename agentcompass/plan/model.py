"""The model section of a request as an endpoint with its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from agentcompass.components import model_clients
from agentcompass.components.base import Harness
from agentcompass.components.models.catalog import ServedModel
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, UnknownComponentError
from agentcompass.secrets import Secret
from agentcompass.spec.codec import structure_settings
from agentcompass.spec.credentials import without_credentials
from agentcompass.spec.dump import as_written
from agentcompass.spec.problems import Problems
from agentcompass.spec.protocols import AUTO, PROTOCOLS
from agentcompass.spec.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt
from agentcompass.spec.resolved import ModelConfig
from agentcompass.spec.tree import Written, report, report_key
from agentcompass.spec.written import ModelSection

NO_MODEL: Final = "none"
"""Model id of a request that has no model, since its harness needs none."""


@frozen(kw_only=True)
class _Limits:
    """What in `model.params` is ours; None where it is not given."""

    max_retries: NonNegativeInt | None = None
    timeout_seconds: NonNegativeFloat | None = None
    max_connections: PositiveInt | None = None
    rpm: PositiveInt | None = None
    tpm: PositiveInt | None = None
    share_limits: bool | None = None


_OURS: Final = tuple(field.name for field in attrs.fields(_Limits))
_SAID: Final = ("model", "messages", "prompt", "input", "system")
"""What every call says by itself: as a parameter it would have no effect."""


def resolve_model(
    section: Written | None,
    request: Written,
    *,
    harness: type[Harness[Any]] | None,
    secrets: tuple[Secret, ...],
    problems: Problems,
) -> ModelConfig:
    """Resolve a model section.

    Args:
        section: Of the request, over that of the defaults; None if there is none.
        request: Gets the blame for what is missing.
        harness: What may call the model; None if it is not known.
        secrets: All known secret values, for the form that is written down.
        problems: Gets what is missing or wrong.
    """
    # an unknown harness is a problem already: what it would need is not guessed
    is_needed = harness is not None and harness.needs_model
    if section is None or section.data is None:
        if is_needed:
            report(problems, request, "is required: the harness calls a model", "model")
        return ModelConfig(id=NO_MODEL)
    written = structure_settings(section, ModelSection, problems)
    if written.id is not None and not written.id.strip():
        report(problems, section, f"must not be empty; write {NO_MODEL!r} for no model", "id")
    params = section.get("params")
    limits = _Limits()
    if params is not None and params.is_mapping:
        limits = structure_settings(_only_ours(params), _Limits, problems)
        _refuse_said(params, harness, problems)
    served = _check_needed(written, section, problems) if is_needed else None
    if written.base_url:
        _check_url(written.base_url, section, problems)
    names = _protocols(
        written.api_protocol, served.protocols if served else (AUTO,), section, problems
    )
    sent = {key: item for key, item in (written.params or {}).items() if key not in _OURS}
    given: dict[str, Any] = attrs.asdict(limits)
    said = {
        "base_url": written.base_url or None,
        "api_key": written.api_key,
        "api_protocol": names,
        "params": sent,
    }
    return ModelConfig(
        id=written.id or NO_MODEL,
        base_url=written.base_url or None,
        served_version=served.version if served else None,
        api_key=_secret(written.api_key),
        api_protocol=names,
        params=sent,
        written=as_written(said, section, secrets),
        counted=as_written(said, section, secrets, "counted"),
        **{key: value for key, value in given.items() if value is not None},
    )


def _check_needed(
    written: ModelSection, section: Written, problems: Problems
) -> ServedModel | None:
    """Report what a model that is called lacks; return it if it is served here, and needs no URL."""
    missing = "is required: the harness calls a model"
    if written.id is None:
        report(problems, section, missing, "id")
    if written.base_url:
        return None
    try:
        served = model_clients.served_model(written.id or "")
    except ConfigurationError as error:
        report(problems, section, str(error), "id")
        return None
    if served is None:
        report(problems, section, missing, "base_url")
    return served


def _refuse_said(params: Written, harness: type[Harness[Any]] | None, problems: Problems) -> None:
    for key in (*_SAID, *(harness.sends if harness else ())):
        item = params.get(key)
        if item is not None:
            report_key(problems, item, "is sent by the harness itself: it cannot be a parameter")


def _only_ours(params: Written) -> Written:
    return attrs.evolve(params, data={key: v for key, v in params.items() if key in _OURS})


def _secret(key: Secret | str | None) -> Secret | None:
    """An empty key is no key."""
    return (key if isinstance(key, Secret) else Secret(key)) if key else None


def _check_url(url: str, section: Written, problems: Problems) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(char.isspace() for char in url):
        node = section.get("base_url")
        shown = without_credentials(url if node is None else str(node.public))
        sentence = f"must be a URL such as http://HOST:PORT/v1, not {shown!r:.100}"
        report(problems, section, sentence, "base_url")


def _protocols(
    value: str | Sequence[str] | None,
    automatic: tuple[str, ...],
    section: Written,
    problems: Problems,
) -> tuple[str, ...]:
    names = (AUTO,) if value is None else (value,) if isinstance(value, str) else tuple(value)
    if not names:
        report(problems, section, "must name at least one protocol", "api_protocol")
    for name in names:
        if name not in (AUTO, *PROTOCOLS):
            error = UnknownComponentError("protocol", name, (AUTO, *PROTOCOLS))
            report(problems, section, str(error), "api_protocol")
    return tuple(each for name in names for each in (automatic if name == AUTO else (name,)))
