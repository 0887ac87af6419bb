from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.benchmarks.scoring import MAX_CHARACTERS, Comparison, last_number


def comparison(**fields):
    defaults = {
        "ignore_case": False,
        "ignore_whitespace": True,
        "absolute_tolerance": 0.0,
        "relative_tolerance": 0.0,
    }
    return Comparison(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", "1234.5"),
        ("$3", "3"),
        ("50%", "50"),
        ("-$3", "-3"),
        ("$-3", "-3"),
        ("\u22127", "-7"),
        ("+7", "7"),
        ("The answer is 42.", "42"),
        ("first 1, then 2, so 3 apples", "3"),
        ("10-3", "3"),
        ("(4)-3", "3"),
        ("x = -3", "-3"),
        ("1e3", "1000"),
        ("6.02e23", "6.02e23"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("5kg", "5"),
        ("1,2", "2"),
        ("12,345,678", "12345678"),
        ("1,2345", "2345"),
        ("72\n\nH2O", "72"),
        ("1/2", "2"),
        ("\u20ac1,000", "1000"),
        ("**18**", "18"),
        ("\\boxed{18}", "18"),
    ],
)
def test_the_last_number_of_a_text(text, number):
    assert last_number(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "none", "H2O", "-", "$", "NaN", "Infinity", "\u0663"])
def test_a_text_without_number_has_none(text):
    assert last_number(text) is None


@given(st.text(alphabet="0123456789,.-+eE$% x", max_size=300))
def test_no_text_breaks_the_search_for_numbers(text):
    number = last_number(text)
    assert number is None or number.is_finite()


@pytest.mark.parametrize("piece", ["1", "1,", ",111", "1.", "e1", "$-", ",", "1e"])
def test_a_huge_text_takes_no_time(piece):
    last_number(piece * MAX_CHARACTERS)


def test_numbers_are_equal_by_value_not_by_form():
    assert comparison().is_numeric("so 5.0", ["5"])
    assert not comparison().is_numeric("5.0000000001", ["5"])
    assert not comparison().is_numeric("9007199254740993", ["9007199254740992"])
    assert not comparison().is_numeric("no number", ["5"])


def test_an_expected_answer_without_a_number_is_near_to_none():
    assert not comparison(absolute_tolerance=1e9).is_numeric("5", ["five"])
    assert comparison().is_numeric("5", ["five", "5"])


def test_the_larger_tolerance_counts():
    assert comparison(absolute_tolerance=0.5).is_numeric("5.5", ["5"])
    assert not comparison(absolute_tolerance=0.5).is_numeric("5.51", ["5"])
    assert comparison(relative_tolerance=0.01).is_numeric("101", ["100"])
    assert not comparison(relative_tolerance=0.01).is_numeric("101.1", ["100"])
    assert comparison(absolute_tolerance=0.1, relative_tolerance=0.5).is_numeric("1.4", ["1"])
    assert comparison(relative_tolerance=0.01).is_numeric("-101", ["-100"])


def test_huge_numbers_and_tolerances_are_compared_all_the_same():
    assert not comparison(relative_tolerance=1e308).is_numeric("1e999", ["-1e-999"])
    assert comparison(relative_tolerance=1e-9).is_numeric("1" * 5000, ["1" * 5000])


@pytest.mark.parametrize(
    ("fields", "text", "is_same"),
    [
        ({}, "  Paris \n", True),
        ({}, "paris", False),
        ({"ignore_case": True}, "PARIS", True),
        ({"ignore_whitespace": False}, "Paris ", False),
        ({}, "Paris, France", False),
    ],
)
def test_exact(fields, text, is_same):
    assert comparison(**fields).is_exact(text, ["London", "Paris"]) is is_same


def test_contains():
    assert comparison().contains("It is New\n York.", ["New York"])
    assert not comparison().contains("It is new york.", ["New York"])
    assert comparison(ignore_case=True).contains("STRASSE", ["straße"])
