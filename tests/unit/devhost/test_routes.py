"""ASP.NET's route templates."""

import pytest

from devhost.errors import BadFunctionError
from devhost.http import routes

GUID = "550e8400-e29b-41d4-a716-446655440000"


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        ("", "", {}),
        ("", "x", None),
        ("a/b", "a/b", {}),
        ("a/b", "A/B/", {}),
        ("a/b", "a", None),
        ("a/b", "a//b", None),
        ("a/b", "a/b/c", None),
        ("topics/{topic}/api/events", "topics/orders/api/events", {"topic": "orders"}),
        ("topics/{topic}/api/events", "topics//api/events", None),
        ("{p}", "x%2Fy z", {"p": "x%2Fy z"}),
        ("a/{p?}", "a", {"p": None}),
        ("a/{p?}", "a/x", {"p": "x"}),
        ("a/{p=7}", "a", {"p": "7"}),
        ("a/{p=7}", "a/8", {"p": "8"}),
        ("a/{p:int=7}", "a/x", None),
        ("s/{*path}", "s/a/b/c", {"path": "a/b/c"}),
        ("s/{**path}", "s/a/b/", {"path": "a/b/"}),
        ("s/{*path}", "s", {"path": None}),
        ("s/{*path}", "s/", {"path": None}),
        ("s/{*path}", "t/a", None),
        ("{a}:{b}", "x:publish", {"a": "x", "b": "publish"}),
        ("{a}-{b}", "x-y-z", {"a": "x-y", "b": "z"}),
        ("v{n:int}", "v12", {"n": "12"}),
        ("{n:int}", "12", {"n": "12"}),
        ("{n:int}", "2147483648", None),
        ("{n:long}", "2147483648", {"n": "2147483648"}),
        ("{n:int}", "9" * 5000, None),
        ("{n:int}", "0" * 5000 + "1", None),
        ("{n:long}", "-9223372036854775808", {"n": "-9223372036854775808"}),
        ("{n:long}", "9223372036854775808", None),
        ("{n:min(3)}", "9" * 5000, None),
        ("{n:min(3)}", "9223372036854775808", None),
        ("{n:max(3)}", "-9223372036854775809", None),
        ("{n:int:min(5)}", "4", None),
        ("{n:int:min(5)}", "5", {"n": "5"}),
        ("{n:max(5)}", "6", None),
        ("{n:range(1,3)}", "3", {"n": "3"}),
        ("{n:range(1,3)}", "4", None),
        ("{b:bool}", "True", {"b": "True"}),
        ("{b:bool}", "yes", None),
        ("{g:guid}", GUID, {"g": GUID}),
        ("{g:guid}", "550e8400", None),
        ("{w:alpha}", "abC", {"w": "abC"}),
        ("{w:alpha}", "ab1", None),
        ("{w:length(2)}", "abc", None),
        ("{w:length(2,3)}", "abc", {"w": "abc"}),
        ("{w:minlength(2)}", "a", None),
        ("{w:minlength(2)}", "abc", {"w": "abc"}),
        ("{w:maxlength(2)}", "abc", None),
        ("{d:datetime}", "2026-11-21", {"d": "2026-11-21"}),
        ("{d:double}", "1.5", {"d": "1.5"}),
        (r"{r:regex(^a/?\d{{2}}$)}", "a12", {"r": "a12"}),
        (r"{r:regex(^\d+$)}/x", "ab/x", None),
    ],
)  # fmt: skip
def test_match(template, path, expected):
    values = routes.parse(template).match(path)

    if expected is None:
        assert values is None
    else:
        assert values == {name: text for name, text in expected.items() if text is not None}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a//b", "two slashes"),
        ("a/{b", "unexpected"),
        ("a/b?", "unexpected"),
        ("{*rest}/a", "a catch-all must come last"),
        ("a{p?}", "must have its segment to itself"),
        ("{p}/{P}", "appears twice"),
        ("{p:colour}", "unknown constraint 'colour'"),
        ("{p:range(1)}", "cannot read"),
        ("{p:minlength(x)}", "cannot read"),
        ("{p:maxlength(x)}", "cannot read"),
        ("{}", "cannot read"),
    ],
)
def test_refuses(template, words):
    with pytest.raises(BadFunctionError, match=words):
        routes.parse(template)
