"""The harness `codex`: OpenAI's coding agent, as it is published on npm."""
