"""Which protocol both sides speak."""

import pytest

from agentcompass.components.models.protocols import choose_codec
from agentcompass.errors import ConfigurationError

CHAT, TEXT = "openai-chat", "openai-completions"


@pytest.mark.parametrize(
    ("asked", "harness", "path", "chosen"),
    [
        (["auto"], [CHAT], "/v1", CHAT),
        (["auto"], [TEXT, CHAT], "/v1", TEXT),
        (["auto"], ["anthropic", CHAT], "/v1", CHAT),
        (["auto"], [TEXT, CHAT], "/v1/chat/completions", CHAT),
        (["auto"], [CHAT, TEXT], "/v1/completions/", TEXT),
        ([CHAT], [TEXT, CHAT], "/v1", CHAT),
        ([TEXT, CHAT], [CHAT, TEXT], "/v1", TEXT),
        (["openai-responses", CHAT], [CHAT, "openai-responses"], "/v1", CHAT),
        (["openai-responses", "auto"], [CHAT], "", CHAT),
    ],
)
def test_the_first_common_protocol_is_chosen(asked, harness, path, chosen):
    assert choose_codec(asked, harness, path).name == chosen


@pytest.mark.parametrize(
    ("asked", "harness", "path"),
    [
        ([TEXT], [CHAT], "/v1"),
        (["anthropic"], ["anthropic"], "/v1"),
        (["auto"], [CHAT], "/v1/messages"),
        (["auto"], [], ""),
        ([], [CHAT], ""),
        (["nonsense"], [CHAT], ""),
    ],
)
def test_nothing_in_common_is_told_with_all_sides(asked, harness, path):
    with pytest.raises(ConfigurationError, match="no model protocol in common"):
        choose_codec(asked, harness, path)
