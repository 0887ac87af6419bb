"""What is secret in URLs."""

import pytest

from agentcompass.spec.credentials import without_credentials, without_userinfo


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "http://u:p@a/ and https://tok@b:1/x?y=@z, mail a@b",
            "http://[secret]@a/ and https://[secret]@b:1/x?y=@z, mail a@b",
        ),
        ("http://u:p@w@h/", "http://[secret]@h/"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://h/v1?api-key=x1&b=2", "http://h/v1?api-key=[secret]&b=2"),
        ("http://h?X-Amz-Signature=x1", "http://h?X-Amz-Signature=[secret]"),
        ("http://h?a=1;sig=x1#f", "http://h?a=1;sig=[secret]#f"),
        ("http://h#access_token=x1", "http://h#access_token=[secret]"),
        ("http://u:p@h?key=x1&password=x2", "http://[secret]@h?key=[secret]&password=[secret]"),
        ("http://h?api%5Fkey=x1", "http://h?api%5Fkey=[secret]"),
        ("http://h?key=", "http://h?key="),
        ("http://h?sort_key=a&max_tokens=5&x=y", "http://h?sort_key=a&max_tokens=5&x=y"),
        ("key=abc and ?key=abc", "key=abc and ?key=abc"),
    ],
)
def test_credentials_are_masked_in_every_url_of_a_text(text, masked):
    assert without_credentials(text) == masked


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h/v1", "https://h/v1"),
        ("https://user:pw@h:8080/v1?x=a@b", "https://h:8080/v1?x=a@b"),
        ("https://user:p@w@h/v1", "https://h/v1"),
        ("https://[secret]@h/v1", "https://h/v1"),
    ],
)
def test_user_and_password_are_left_out(url, expected):
    assert without_userinfo(url) == expected
