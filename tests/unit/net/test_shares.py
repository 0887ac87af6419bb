"""What each user of an endpoint may have of it."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.net.shares import Company, Standing, fair_places, fair_shares
from agentcompass.net.window import Findings

WANTS = st.lists(st.integers(0, 300), min_size=1, max_size=12)


@given(total=st.integers(1, 500), wants=WANTS)
def test_places_are_all_given_and_nobody_gets_more_than_they_want(total, wants):
    places = fair_places(total, wants)
    assert all(place <= want for place, want in zip(places, wants, strict=True))
    assert all(place >= 1 for place, want in zip(places, wants, strict=True) if want)
    hungry = sum(1 for want in wants if want)
    assert sum(places) >= min(total, sum(wants))
    assert sum(places) <= max(total, hungry)


@given(total=st.integers(1, 500), wants=WANTS)
def test_whoever_gets_less_than_they_want_gets_as_much_as_anybody_less_one(total, wants):
    places = fair_places(total, wants)
    for place, want in zip(places, wants, strict=True):
        if place < want:
            assert place >= max(places) - 1


@given(total=st.floats(0, 1e6), wants=st.lists(st.floats(0, 1e6) | st.just(math.inf), min_size=1))
def test_shares_never_exceed_the_total(total, wants):
    shares = fair_shares(total, wants)
    assert sum(shares) <= total * (1 + 1e-9)
    assert all(0 <= share <= want for share, want in zip(shares, wants, strict=True))


@pytest.mark.parametrize(
    ("total", "wants", "shares"),
    [
        (600, [math.inf, math.inf], [300, 300]),
        (600, [100, math.inf], [100, 500]),
        (600, [100, 50], [100, 50]),
        (600, [math.inf, 0, math.inf, 100], [250, 0, 250, 100]),
    ],
)
def test_a_share_is_what_is_wanted_or_as_much_as_anybody_gets(total, wants, shares):
    assert fair_shares(total, wants) == pytest.approx(shares)


def test_everybody_computes_the_same_division():
    users = [Standing(cap=50, in_use=n, waiting=40) for n in (1, 5, 9)]
    given = [
        Company(others=(*users[:at], *users[at + 1 :]), rank=at).share(16, user.wanted)
        for at, user in enumerate(users)
    ]
    assert given == fair_places(16, [user.wanted for user in users])
    assert sum(given) == 16


def test_alone_everything_is_ones_own():
    assert Company().share(7, 3) == 7


STANDING = Standing(
    cap=256,
    in_use=3,
    waiting=2,
    taken=10,
    findings=Findings(cuts=2, base=12.5, ceiling=16.0, grown=0.25),
    resume_at=77.5,
    wants_requests=math.inf,
    wants_tokens=5.0,
)


@pytest.mark.parametrize("standing", [STANDING, Standing(cap=1)], ids=["all", "least"])
def test_a_standing_survives_json(standing):
    text = json.dumps(standing.to_json(), allow_nan=False)
    assert Standing.from_json(json.loads(text)) == standing


def test_what_a_later_version_adds_is_ignored():
    assert Standing.from_json({**STANDING.to_json(), "colour": "blue"}) == STANDING


@pytest.mark.parametrize(
    "change",
    [
        {"cap": None},
        {"cap": "256"},
        {"in_use": True},
        {"base": math.nan},
        {"cap": ...},
        {"in_use": -1},
        {"cap": math.inf},
    ],
)
def test_what_makes_no_sense_is_refused(change):
    data = {**STANDING.to_json(), **change}
    data = {key: value for key, value in data.items() if value is not ...}
    with pytest.raises(ValueError, match=r"cap|in_use|base"):
        Standing.from_json(data)
