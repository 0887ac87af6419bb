"""From base URLs to URLs."""

import pytest

from agentcompass.components.models.paths import candidate_paths

CHAT = "chat/completions"


@pytest.mark.parametrize(
    ("base", "paths"),
    [
        ("", ("/v1/chat/completions", "/chat/completions")),
        ("/", ("/v1/chat/completions", "/chat/completions")),
        ("/v1", ("/v1/chat/completions",)),
        ("/v1/", ("/v1/chat/completions",)),
        ("/v1//", ("/v1/chat/completions",)),
        ("/api/v1", ("/api/v1/chat/completions",)),
        ("/api/paas/v4/", ("/api/paas/v4/chat/completions",)),
        ("/v1beta/openai/", ("/v1beta/openai/chat/completions",)),
        ("/proxy", ("/proxy/chat/completions", "/proxy/v1/chat/completions")),
        ("/vault", ("/vault/chat/completions", "/vault/v1/chat/completions")),
        ("/v1/chat/completions", ("/v1/chat/completions",)),
        ("/x/chat/completions/", ("/x/chat/completions",)),
        ("/v1/completions", ("/v1/chat/completions",)),
        ("/v1/responses", ("/v1/chat/completions",)),
    ],
)
def test_where_chats_may_be(base, paths):
    assert candidate_paths(base, CHAT) == paths


def test_a_complete_url_of_chats_serves_completions_too():
    assert candidate_paths("/v1/chat/completions", "completions") == ("/v1/completions",)


@pytest.mark.parametrize(
    ("base", "paths"),
    [
        ("", ("/v1/messages", "/messages")),
        ("/v1", ("/v1/messages",)),
        ("/api/anthropic/", ("/api/anthropic/v1/messages", "/api/anthropic/messages")),
        ("/anthropic/v1", ("/anthropic/v1/messages",)),
        ("/v1/messages", ("/v1/messages",)),
        ("/v1/chat/completions", ("/v1/messages",)),
    ],
)
def test_a_prefix_of_messages_lacks_its_version_as_the_official_clients_expect(base, paths):
    assert candidate_paths(base, "messages") == paths
