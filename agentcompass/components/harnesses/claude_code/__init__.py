"""The harness `claude_code`: Anthropic's coding agent, as it is published on npm."""
