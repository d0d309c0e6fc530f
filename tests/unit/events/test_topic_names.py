"""Which topic a path names, and what is said of a path that names none."""

from __future__ import annotations

import pytest

from shared.errors import WrongPath
from shared.events.publish_http import topic_name
from shared.http import HttpRequest

_NAMESPACE = {"namespace": "shop", "action": "orders"}
_ORDERS = "/namespaces/shop/topics/orders:publish"


@pytest.mark.parametrize(
    ("path", "params", "right"),
    [
        ("/api/events", {}, "/topics/NAME/api/events"),
        ("/topics", {}, "/topics/NAME/api/events"),
        ("/topics/orders", {}, "/topics/orders/api/events"),
        ("/Topics/Orders/", {}, "/topics/Orders/api/events"),
        ("/topics/orders/events", {}, "/topics/orders/api/events"),
        ("/topics/orders/api/events/1", {}, "/topics/orders/api/events"),
        ("/topics/orders:publish", {}, "/namespaces/NAMESPACE/topics/orders:publish"),
        ("/topics/shop.orders", {}, _ORDERS),
        ("/topics/shop.orders/api/events", {"topic": "shop.orders"}, _ORDERS),
        ("/namespaces/shop/topics/orders", _NAMESPACE, _ORDERS),
        ("/namespaces/shop/topics/orders/api/events", _NAMESPACE, _ORDERS),
        ("/namespaces/shop/topics/orders:bury", {**_NAMESPACE, "action": "orders:bury"}, _ORDERS),
        # What can be no name is not repeated.
        ("/topics/%3Cscript%3E", {}, "/topics/NAME/api/events"),
        ("/topics/<b>", {}, "/topics/NAME/api/events"),
        (f"/topics/{'a' * 51}", {}, "/topics/NAME/api/events"),
        ("/topics/a_b", {}, "/topics/NAME/api/events"),
    ],
)
def test_a_wrong_path_is_told_the_right_one(path: str, params: dict[str, str], right: str) -> None:
    url = f"https://pushgrid.example{path}"
    request = HttpRequest(method="POST", url=f"{url}?aeg-sas-key=secret", headers={}, params=params)

    with pytest.raises(WrongPath) as refused:
        topic_name(request)

    assert refused.value.message == (
        f"No HTTP resource was found that matches the request URI '{url}'. POST events to {right}."
    )


def test_a_long_path_is_clipped() -> None:
    url = f"https://pushgrid.example/topics/{'x/' * 10_000}"
    request = HttpRequest(method="POST", url=url, headers={})

    with pytest.raises(WrongPath) as refused:
        topic_name(request)

    assert len(refused.value.message) < 300


def test_nobody_publishes_to_the_topic_of_a_source() -> None:
    url = "https://pushgrid.example/topics/system-acct/api/events"

    with pytest.raises(WrongPath, match="Nobody publishes to the topic of a source"):
        topic_name(HttpRequest(method="POST", url=url, headers={}, params={"topic": "system-acct"}))
