"""The harness `codex` and its parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, final

from agentcompass.components.base import Gateway
from agentcompass.components.harnesses.codex.events import CodexHearing
from agentcompass.components.harnesses.codex.published import CODEX, VERSION
from agentcompass.components.harnesses.installed.account import Account
from agentcompass.components.harnesses.installed.agent import InstalledAgent
from agentcompass.components.harnesses.installed.params import InstalledParams
from agentcompass.components.harnesses.installed.place import Place
from agentcompass.components.harnesses.installed.published import Published
from agentcompass.components.harnesses.installed.running import Launch
from agentcompass.data import frozen
from agentcompass.records import JSON

_PROVIDER: Final = "agentcompass"
_KEY: Final = "OPENAI_API_KEY"
"""The variable with the key, which the commands that it runs see too; it is good for this attempt only."""
_PATIENCE_MS: Final = 86_400_000
"""A call may take as long as the gateway lets it: that knows why."""
_SETTINGS: Final[Mapping[str, JSON]] = {
    "model_provider": _PROVIDER,
    f"model_providers.{_PROVIDER}.name": _PROVIDER,
    f"model_providers.{_PROVIDER}.env_key": _KEY,
    f"model_providers.{_PROVIDER}.wire_api": "responses",
    # The gateway has tried before; left to the program are answers that broke off.
    f"model_providers.{_PROVIDER}.request_max_retries": 0,
    f"model_providers.{_PROVIDER}.stream_max_retries": 3,
    f"model_providers.{_PROVIDER}.stream_idle_timeout_ms": _PATIENCE_MS,
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "features.plugins": False,
    "features.apps": False,
}
_VARIES: Final = (
    r"(?<=<current_date>)[^<]*",
    r"(?<=<timezone>)[^<]*",
    # of what a command has printed: a name that nobody uses, and how long it took
    r"\AChunk ID: [0-9a-f]+\nWall time: [0-9.]+ seconds",
)


@frozen(kw_only=True)
class CodexParams(InstalledParams):
    """Parameters of `codex`; those of the generation are the model's."""

    version: str = VERSION
    """Version of the program that is brought."""


@final
class Codex(InstalledAgent[CodexParams]):
    """Codex in its sandbox, by itself and without asking for approvals."""

    id = "codex"
    Params: ClassVar[type] = CodexParams
    protocols: ClassVar[tuple[str, ...]] = ("openai-responses",)
    published: ClassVar[Published] = CODEX
    varies: ClassVar[tuple[str, ...]] = _VARIES

    def launch(self, program: str, place: Place, gateway: Gateway, model: str) -> Launch:
        """Return how it is started; see `InstalledAgent.launch`."""
        settings = {
            **_SETTINGS,
            f"model_providers.{_PROVIDER}.base_url": f"{gateway.url}/v1",
            **({} if self.params.web else {"web_search": "disabled"}),
        }
        return Launch(
            argv=[
                program,
                *("exec", "--json", "--skip-git-repo-check"),
                "--dangerously-bypass-approvals-and-sandbox",
                *("--model", model),
                *_options(settings),
            ],
            env={_KEY: gateway.key, "CODEX_HOME": f"{place.home}/config"},
        )

    def hearing(self, account: Account) -> CodexHearing:
        """Return what listens to one attempt."""
        return CodexHearing(account)


def _options(settings: Mapping[str, JSON]) -> Iterator[str]:
    """Settings as arguments; what is JSON there is TOML too."""
    for name, value in settings.items():
        yield from ("--config", f"{name}={json.dumps(value)}")
