"""Route templates: literal segments, `{x}`, `{x:regex(…)}` and `{*x}`; other forms are refused."""

import pytest

from devhost.errors import BadFunctionError
from devhost.http import routes


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        ("", "", {}),
        ("", "x", None),
        ("a/b", "a/b", {}),
        ("a/b", "A/B/", {}),
        ("a/b", "a//b", None),
        ("a.b", "axb", None),
        ("topics/{topic}/api/events", "topics//api/events", None),
        ("{p}", "x\ny", {"p": "x\ny"}),
        ("{p}", "x/y", None),
        ("s/{*path}", "s/a/b/", {"path": "a/b/"}),
        ("s/{*path}", "s", {}),
        ("s/{*path}", "s/", {}),
        ("s/{*path}", "sa", None),
        ("{a:regex(^(on|off)$)}/{*b}", "Off/y/z", {"a": "Off", "b": "y/z"}),
        ("{a:regex(^(on|off)$)}/{*b}", "only/y", None),
        ("{a:regex(n)}", "only", {"a": "only"}),
    ],
)  # fmt: skip
def test_match(template, path, expected):
    assert routes.parse(template).match(path) == expected


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a//b", "segment '' is not supported"),
        ("{*rest}/a", "{*rest} must come last"),
        ("{p}/{P}", "parameter P is repeated"),
        ("{p:regex(()}", "'(' can't be read: missing )"),
        *(
            (f"a/{segment}", f"segment '{segment}' is not supported")
            for segment in (
                *("{p:int}", "{*p:regex(a)}", "{p?}", "{p=7}", "{**p}", "{p:range(1,3)}"),
                *("v{n}", "{a}-{b}", "{}", "{b", "b?", "b}"),
            )
        ),
    ],
)
def test_other_forms_are_refused(template, words):
    with pytest.raises(BadFunctionError) as raised:
        routes.parse(template)

    assert words in str(raised.value)
