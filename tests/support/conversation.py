"""A conversation that has everything: system text, images, caching markers, parallel calls and their results, thinking."""

from agentcompass.components.messages import Message, Tool, ToolCall

PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = (
    Tool(
        name="bash",
        description="Run a command.",
        parameters={"type": "object", "properties": {"command": {"type": "string"}}},
    ),
)


def told(marker=None):
    """What a task tells. `marker` ends the prefix that is worth caching."""
    marks = marker or {}
    return (
        Message(role="system", content="Be brief."),
        Message(
            role="user",
            content=(
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://host/a.png", "detail": "low"}},
                {"type": "text", "text": "Look closely.", **marks},
            ),
        ),
    )


def answered(reply, *, last="Go on."):
    """What follows a reply with two calls: their results, the second with an image, and a word of the user."""
    first, second = reply.tool_calls
    return (
        reply,
        Message(role="tool", content="exit code 0", tool_call_id=first.id),
        Message(
            role="tool",
            content=(
                {"type": "text", "text": "a picture"},
                {"type": "image_url", "image_url": {"url": PNG}},
            ),
            tool_call_id=second.id,
        ),
        Message(role="user", content=last),
    )


def foreign_reply():
    """A reply that no endpoint of the protocol has made: an example of a task, or from another protocol."""
    return Message(
        role="assistant",
        content="Let me see.",
        tool_calls=(
            ToolCall(id="a", name="bash", arguments='{"command": "ls"}'),
            ToolCall(id="b", name="bash", arguments='{"command": "cat a.png"}'),
        ),
        reasoning="hm",
    )
