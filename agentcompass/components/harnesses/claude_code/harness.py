"""The harness `claude_code` and its parameters."""

from __future__ import annotations

from typing import ClassVar, Final, final

from agentcompass.components.base import Gateway
from agentcompass.components.harnesses.claude_code.events import ClaudeCodeHearing
from agentcompass.components.harnesses.claude_code.published import CLAUDE_CODE, VERSION
from agentcompass.components.harnesses.installed.account import Account
from agentcompass.components.harnesses.installed.agent import InstalledAgent
from agentcompass.components.harnesses.installed.params import InstalledParams
from agentcompass.components.harnesses.installed.place import Place
from agentcompass.components.harnesses.installed.published import Published
from agentcompass.components.harnesses.installed.running import Launch
from agentcompass.data import frozen

_WEB_TOOLS: Final = "WebSearch,WebFetch"
_PATIENCE_MS: Final = "86400000"
"""A call may take as long as the gateway lets it: that knows why."""
_MODELS: Final = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Variables that name the model for one purpose or another."""
_ENVIRONMENT: Final = {
    "IS_SANDBOX": "1",  # else it refuses to work as root without asking for permissions
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "API_TIMEOUT_MS": _PATIENCE_MS,
    # The gateway has tried before; left to the program are answers that broke off.
    "CLAUDE_CODE_MAX_RETRIES": "3",
}
_VARIES: Final = (
    r"(?<=Today's date is )\d{4}-\d\d-\d\d",
    r"(?<= - OS Version: ).*",  # of the machine's kernel
)


@frozen(kw_only=True)
class ClaudeCodeParams(InstalledParams):
    """Parameters of `claude_code`; those of the generation are the model's."""

    version: str = VERSION
    """Version of the program that is brought."""


@final
class ClaudeCode(InstalledAgent[ClaudeCodeParams]):
    """Claude Code in its sandbox, by itself and without asking for permissions."""

    id = "claude_code"
    Params: ClassVar[type] = ClaudeCodeParams
    protocols: ClassVar[tuple[str, ...]] = ("anthropic",)
    published: ClassVar[Published] = CLAUDE_CODE
    varies: ClassVar[tuple[str, ...]] = _VARIES

    def launch(self, program: str, place: Place, gateway: Gateway, model: str) -> Launch:
        """Return how it is started; see `InstalledAgent.launch`."""
        turns = self.params.max_turns
        return Launch(
            argv=[
                program,
                "--print",
                *("--output-format", "stream-json", "--verbose"),
                *("--model", model),
                "--dangerously-skip-permissions",
                *(("--max-turns", str(turns)) if turns is not None else ()),
                *(() if self.params.web else ("--disallowedTools", _WEB_TOOLS)),
            ],
            env={
                **_ENVIRONMENT,
                **dict.fromkeys(_MODELS, model),
                "ANTHROPIC_BASE_URL": gateway.url,
                "ANTHROPIC_API_KEY": gateway.key,
                "CLAUDE_CONFIG_DIR": f"{place.home}/config",
            },
        )

    def worded(self, prompt: str) -> str:
        """Return the prompt; one that begins as its own commands do, such as `/help`, stands on a line further down."""
        return f"\n{prompt}" if prompt.startswith("/") else prompt

    def hearing(self, account: Account) -> ClaudeCodeHearing:
        """Return what listens to one attempt."""
        return ClaudeCodeHearing(account)
