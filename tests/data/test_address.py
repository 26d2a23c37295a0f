"""Addresses are opened with their secrets and shown without them."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbmd.data.address import Secrets, shown


@pytest.mark.parametrize(
    ("address", "without"),
    [
        ("s3://KEY:SECRET@bucket/x.csv?region=eu", "s3://bucket/x.csv"),
        ("https://user:pw@host:8080/a/x.csv?token=t&v=1#top", "https://host:8080/a/x.csv"),
        ("https://host/x.csv?email=a@b.c", "https://host/x.csv"),
        ("hdfs://user:pw@host/x.csv", "hdfs://host/x.csv"),
        ("hdfs://user@host/x.csv", "hdfs://host/x.csv"),
        ("simplecache::s3://KEY:SECRET@bucket/x.csv", "simplecache::s3://bucket/x.csv"),
        ("zip://x.csv::https://user:pw@host/a.zip?sig=s", "zip://x.csv::https://host/a.zip"),
        ("zip://x.csv::simplecache::s3://K:S@b/a.zip", "zip://x.csv::simplecache::s3://b/a.zip"),
        ("zip://x.csv::/home/me@work/a.zip", "zip://x.csv::/home/me@work/a.zip"),
        ("http://user:pw@[::1]:80/x.csv", "http://[::1]:80/x.csv"),
        # Passwords with signs that should have been written %2F, %3F, %23.
        ("s3://KEY:SEC/RET@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://KEY:/SECRET@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://KEY:SEC::RET@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://KEY:SEC@RET@bucket/x.csv", "s3://bucket/x.csv"),
        ("https://user:p?w@host/x.csv?token=t", "https://host/x.csv"),
        ("https://user:p#w@host/x.csv", "https://host/x.csv"),
        # A slash too few, as pathlib has it.
        (Path("s3://KEY:SECRET@bucket/x.csv"), "s3:/bucket/x.csv"),
    ],
)
def test_user_information_and_query_are_not_shown(address, without):
    assert shown(address) == without


@pytest.mark.parametrize(
    "text",
    [
        "x.csv",
        "lab@home/what?.csv",
        "a::b.csv",
        "/data/a:b@c/x.csv",
        "C:/Users/me@work/x.csv",
        "s3://bucket/team@work/x.csv",
        "http://host:80/team@work/x.csv",
        "http://[::1]/x.csv",
        "file:///data/x@y.csv",
        "memory://far/data.csv",
    ],
)
def test_what_holds_no_secret_is_shown_as_it_is(text):
    assert shown(text) == text
    assert Secrets.of([text]) == Secrets((), ())


words = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=4, max_size=9)


@given(words, words, words, st.sampled_from(["s3://", "https://", "simplecache::s3://"]))
@example("AKIA", "se/cr+et", "a b", "s3://")
def test_no_message_tells_them_however_they_are_written_there(user, password, token, scheme):
    user, password, token = (f"<{word}>" for word in (user, password, token))
    address = f"{scheme}{quote(user, safe='')}:{quote(password, safe='')}@host/x.csv?token={quote(token, safe='')}"
    secrets = Secrets.of(["x.csv", address])
    assert shown(address) == f"{scheme}host/x.csv"
    for word in (user, password, token):
        for form in (word, quote(word), quote(word, safe="")):
            for message in (f"cannot open {address}", f"{form}@host/x.csv is locked", f"no such key: {form}"):
                assert form not in secrets.removed(message)


def test_what_else_a_message_says_stays():
    secrets = Secrets.of(["https://user:pw@host/x.csv?v=1&token=sesame"])
    said = "403, message='Forbidden', url='https://user:pw@host/x.csv?v=1&token=sesame', line 1"
    assert secrets.removed(said) == "403, message='Forbidden', url='https://host/x.csv', line 1"
    assert secrets.removed("user:pw@host/x.csv?v=1&token=sesame") == "host/x.csv"
    assert secrets.removed("the token sesame has expired") == "the token *** has expired"
