"""Which protocol both sides speak."""

import pytest

from agentcompass.components.models.protocols import CODECS, OPERATIONS, choose_codec
from agentcompass.errors import ConfigurationError
from agentcompass.spec.protocols import PROTOCOLS

CHAT, TEXT = "openai-chat", "openai-completions"
RESPONSES, ANTHROPIC = "openai-responses", "anthropic"
ALL = [CHAT, RESPONSES, ANTHROPIC, TEXT]


@pytest.mark.parametrize(
    ("asked", "harness", "path", "chosen"),
    [
        (["auto"], [CHAT], "/v1", CHAT),
        (["auto"], [TEXT, CHAT], "/v1", TEXT),
        (["auto"], [ANTHROPIC, CHAT], "/v1", ANTHROPIC),
        (["auto"], ["unknown", CHAT], "/v1", CHAT),
        (["auto"], [TEXT, CHAT], "/v1/chat/completions", CHAT),
        (["auto"], [CHAT, TEXT], "/v1/completions/", TEXT),
        (["auto"], ALL, "/v1/messages", ANTHROPIC),
        (["auto"], ALL, "/v1/responses", RESPONSES),
        (["auto"], ALL, "/api/anthropic", ANTHROPIC),
        (["auto"], ALL, "/anthropic/v1", ANTHROPIC),
        (["auto"], ALL, "/anthropics", CHAT),
        (["auto"], [CHAT, TEXT], "/anthropic", CHAT),
        ([CHAT], [TEXT, CHAT], "/v1", CHAT),
        ([CHAT], ALL, "/anthropic", CHAT),
        ([TEXT, CHAT], [CHAT, TEXT], "/v1", TEXT),
        ([RESPONSES, CHAT], [CHAT, RESPONSES], "/v1", RESPONSES),
        ([RESPONSES, CHAT], [CHAT, ANTHROPIC], "/v1", CHAT),
        ([RESPONSES, "auto"], [CHAT], "", CHAT),
    ],
)
def test_the_first_common_protocol_is_chosen(asked, harness, path, chosen):
    assert choose_codec(asked, harness, path).name == chosen


@pytest.mark.parametrize(
    ("harness", "chosen"), [(ALL, ANTHROPIC), ([CHAT, TEXT], CHAT), ([RESPONSES], RESPONSES)]
)
def test_the_host_of_anthropic_speaks_anthropic_to_whoever_can(harness, chosen):
    for path in ("", "/v1"):
        assert choose_codec(["auto"], harness, path, "api.anthropic.com").name == chosen


@pytest.mark.parametrize(
    ("asked", "harness", "path"),
    [
        ([TEXT], [CHAT], "/v1"),
        ([ANTHROPIC], [CHAT, RESPONSES], "/v1"),
        (["auto"], [CHAT], "/v1/messages"),
        (["auto"], [], ""),
        ([], [CHAT], ""),
        (["nonsense"], [CHAT], ""),
    ],
)
def test_nothing_in_common_is_told_with_all_sides(asked, harness, path):
    with pytest.raises(ConfigurationError, match="no model protocol in common"):
        choose_codec(asked, harness, path)


def test_every_protocol_that_can_be_asked_for_is_there():
    assert set(CODECS) == set(PROTOCOLS) == set(OPERATIONS.values())
    assert all(OPERATIONS[codec.operation] == name for name, codec in CODECS.items())
