"""The URL of a model endpoint."""

import base64

import pytest

from agentcompass.net.address import Address


def test_a_password_is_kept_apart_and_decoded():
    address = Address.parse("http://me:p%40ss/w@host:8000/v1".replace("/w", "%2Fw"))
    assert str(address) == "http://host:8000/v1"
    assert address.authorization == "Basic " + base64.b64encode(b"me:p@ss/w").decode()
    assert "p@ss" not in repr(address)
    assert "p%40ss" not in repr(address)
    assert {"p@ss/w", "p%40ss%2Fw"} <= set(address.secrets)


def test_without_a_user_there_is_no_header():
    address = Address.parse("https://host/v1/#part")
    assert address.authorization is None
    assert str(address.url) == "https://host/v1/"


def test_a_query_is_sent_but_not_shown():
    address = Address.parse("http://host/base?api-version=3&key=abc").with_path("/base/x")
    assert str(address.url) == "http://host/base/x?api-version=3&key=abc"
    assert str(address) == "http://host/base/x"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:8000/v1",
        "ftp://host",
        "http://",
        "http:///v1",
        "/v1",
        "http://u:secret/x@host:1/",
        "http://h:99999",
    ],
)
def test_what_is_no_http_url_is_refused_without_repeating_it(text):
    with pytest.raises(ValueError, match=r"http://|valid URL") as caught:
        Address.parse(text)
    assert "secret" not in str(caught.value)
