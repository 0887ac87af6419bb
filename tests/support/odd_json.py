"""Answers of an endpoint that are made of the right words in any order, and what reading them may come to."""

from hypothesis import strategies as st

from agentcompass.errors import ModelError


def odd_json(names, words):
    """JSON of names and words that mean something to whoever reads it."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(0, 2)
        | st.sampled_from(words)
        | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(names), inner, max_size=5)
        ),
        max_leaves=15,
    )


def only_malformed(*reads):
    """Check that each of these succeeds, or says that the answer is malformed."""
    for read in reads:
        try:
            read()
        except ModelError as error:
            assert error.code == "malformed-response"  # noqa: PT017
