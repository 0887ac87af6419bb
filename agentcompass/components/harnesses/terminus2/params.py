"""What a user may set of `terminus2`."""

from __future__ import annotations

from typing import Annotated, Literal

from agentcompass.components.base import KiB
from agentcompass.data import frozen
from agentcompass.spec.ranges import NonNegativeInt, PositiveInt, Range


@frozen(kw_only=True)
class Terminus2Params:
    """Parameters of `terminus2`; those of the generation are the model's."""

    parser: Literal["json", "xml"] = "json"
    """Form of the replies that are asked for."""
    max_turns: PositiveInt = 300
    """Replies of the model after which it is stopped."""
    max_output_bytes: Annotated[int, Range(minimum=KiB, maximum=100_000)] = 10_000
    """What the model sees of the terminal at one look: head and tail, the middle left out."""
    tmux_pane_width: Annotated[int, Range(minimum=20, maximum=1000)] = 160
    """Columns of the terminal."""
    tmux_pane_height: Annotated[int, Range(minimum=5, maximum=500)] = 40
    """Rows of the terminal."""
    login_shell: bool = True
    """Whether the terminal runs a login shell, as the published agent's does; that of Debian sets PATH anew."""
    enable_summarize: bool = True
    """Whether a conversation that becomes too long is summed up and handed over; otherwise that is its end."""
    context_tokens: PositiveInt | None = None
    """Context length of the model. Null: a conversation is handed over only when the endpoint calls it too long."""
    proactive_summarization_threshold: NonNegativeInt = 8000
    """Tokens of the context that are to be free for a turn; with fewer, the conversation is handed over before it."""
    record_terminal: bool = True
    """Whether the terminal is recorded, in `recording.cast` of the attempt's directory."""
    tmux: str | None = None
    """Path of a tmux of this machine, best a static build, that is brought into the sandbox; null: the sandbox's own or,
    where it has none, that of this machine with the libraries it needs."""
