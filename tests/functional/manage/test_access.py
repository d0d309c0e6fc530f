"""Who may do what: each cell of the table in docs/security.md, for all routes of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.delivery.outcome import EndpointAnswer
from shared.engine.manage.az_login import AzLogin
from shared.engine.operations.activity import Activity
from shared.engine.operations.console_files import ConsoleFiles
from shared.engine.operations.event_timeline import failure_documents
from shared.engine.operations.operator_authorization import Operators
from shared.engine.operations.status import Status
from shared.engine.operations.topic_states import topic_states
from shared.events.token_claims import Claims
from shared.http import HttpAnswer, HttpRequest
from shared.subscriptions.subscription import SubscriptionKey
from shared.wiring.web_routes import ROUTES as ROUTES_OF_WEB
from tests.builders import KEY as TOPIC_KEY
from tests.builders import a_record, an_outcome
from tests.functional.deployment import Deployment
from tests.functional.manage.arm_api import CRM, HOST, ORDERS, SHOP, SHOP_ORDERS, ArmApi, hook
from tests.functional.publish_requests import event, publish_request
from tests.token_verifier import Tokens

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text()
ROUTES = ArmApi().manage.routes
METHODS = ("GET", "PUT", "PATCH", "DELETE", "POST")
LINK = "f" * 32
VALUES = {
    "subscription": "s1",
    "group": "rg",
    "topic": "orders",
    "namespace": "shop",
    "name": "crm",
    "account": "acct",
    "topic_type": "Microsoft.EventGrid.Topics",
    "location": "global",
    "replay": "r1",
    "action": "getFullUrl",
    "*scope": "subscriptions/s1/resourceGroups/rg/providers/Microsoft.Web/sites/site",
}
TOKENS = {
    "contributor": Claims.from_token({"oid": "o-1", "roles": ["EventGridContributor"]}),
    "reading": Claims.from_token({"oid": "r-1", "roles": ["EventGrid Reader"]}),
    "sender": Claims.from_token({"oid": "s-1", "roles": ["EventGridDataSender"]}),
}
OPERATORS = Operators(
    admin_key="key-one", admin_key_2="key-two", reader_key="key-reads", tokens=Tokens(**TOKENS)
)
CREDENTIALS = {
    "operator": ("key-one", "key-two", "contributor"),
    "reader": ("key-reads", "reading"),
    "publisher": (TOPIC_KEY, "sender"),
    "nobody": (None, "another"),
}


def rows() -> Iterator[tuple[list[tuple[str, str]], dict[str, str]]]:
    """Yield the methods and names of each row, and what it says of each caller."""
    table = PAGE.partition("| routes |")[2].partition("\n\n")[0].splitlines()[2:]
    for line in table:
        first, *cells = (each.strip() for each in line.strip("|").split(" | "))
        words = re.findall(r"`([^`]+)`", first.partition("(")[0])
        methods = [each for each in words if each in METHODS]
        named = [(method, name) for method in methods for name in words if name not in METHODS]
        yield named, dict(zip(CREDENTIALS, cells, strict=True))


CELLS = [
    (method, name, caller, said)
    for named, cells in rows()
    for method, name in named
    for caller, said in cells.items()
]


def managed() -> set[tuple[str, str]]:
    return {(method, name_of(route.segments)) for route in ROUTES for method in route.handlers}


def name_of(segments: tuple[str, ...]) -> str:
    return next(each for each in reversed(segments) if not each.startswith("{"))


def web_routes() -> dict[str, set[str]]:
    """Return the methods of each row of ``web_function``, by its path as a template."""
    found = {}
    for area, (methods, path) in ROUTES_OF_WEB.items():
        tail = re.sub(r"\(\?P<(\w+)>\.\*\)", r"{*\1}", path.removesuffix("/?"))
        tail = re.sub(r"\(\?P<(\w+)>.*\)", r"{\1}", tail).replace(".*", "{*path}").rstrip("/?")
        found[f"{area}/{tail}"] = set(methods.split())
    return found


def test_each_route_of_the_code_has_one_row() -> None:
    listed = [(method, name) for named, _ in rows() for method, name in named]
    of_the_app = {(method, name) for method, name in listed if "/" in name}

    assert len(listed) == len(set(listed))
    assert set(listed) - of_the_app == managed()
    bindings = [json.loads(each.read_text())["bindings"] for each in ROOT.glob("*_function/*.json")]
    triggers = [each for found in bindings for each in found if each["type"] == "httpTrigger"]
    routes = {each["route"]: {*map(str.upper, each["methods"])} for each in triggers}
    of_web = routes.pop(f"{{area:regex(^({'|'.join(sorted(ROUTES_OF_WEB))})$)}}/{{*path}}")
    assert of_web == {method for methods in web_routes().values() for method in methods}
    routes |= web_routes()
    for whole in ("subscriptions/{*path}", "providers/{*path}"):  # the management API
        del routes[whole]
    of_status = {(method, name) for method, name in of_the_app if name.startswith("status/")}
    assert {method for method, _ in of_status} == routes.pop("status/{*what}")
    assert {name for _, name in of_the_app - of_status} == set(routes)
    for method, name in of_the_app - of_status:
        assert method in routes[name]


class App:
    """All that answers requests, with a topic, a namespace and an attempt that was answered."""

    def __init__(self, publishing: Deployment) -> None:
        self.publishing = publishing
        self.api = api = ArmApi()
        for path in (ORDERS, SHOP, SHOP_ORDERS):
            api.json("PUT", path, {"location": "x"}, status=201)
        api.json("PUT", CRM, hook(), status=201)
        record = a_record()
        answer = EndpointAnswer(record.system_id, {"x-trace": "of-crm"}, "words of crm")
        outcome = replace(an_outcome(), answer=answer)
        api.attempts.write([replace(record, outcome=outcome)])
        api.reconfigure(operators=OPERATORS)
        self.stored = self.everything()

    def activity(self) -> Activity:
        """Return what `read_activities` would find."""
        (failure,) = failure_documents(self.api.attempts.records, 1)
        return Activity(failing_since=self.api.clock.now(), failure=failure)

    def everything(self) -> Any:
        """Return all that a request could change."""
        published = self.publishing.all_stored()
        return self.api.rows(), published, len(self.api.pusher.sent), self.api.queues.stored.copy()

    def asked(self, method: str, name: str, token: str | None) -> Iterator[HttpAnswer]:
        """Answer a request to each route of that name."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        if "/" in name:
            yield self._outside(method, name, token, headers)
            return
        for route in ROUTES:
            if method in route.handlers and name_of(route.segments) == name:
                path = "/" + "/".join(
                    VALUES[each[1:-1]] if each.startswith("{") else each for each in route.segments
                )
                body = None if method == "GET" else {"location": "x"}
                yield self.api.call(method, path, body, headers=headers)

    def _outside(
        self, method: str, name: str, token: str | None, headers: dict[str, str]
    ) -> HttpAnswer:
        path = name.replace("{*file}", "").replace("adfs/{*path}", "adfs/oauth2/token")
        if method == "GET":
            path = path.replace("oauth2/token", ".well-known/openid-configuration")
        request = HttpRequest(method=method, url=f"{HOST}/{path}", headers=headers)
        if name.startswith("status/"):
            status = Status(
                counts=self.api.counts,
                measures=list,
                fault=str,
                snapshot=lambda: None,
                held=list,
                topics=lambda seen: topic_states(
                    self.api.resources, self.api.clock.now(), (), seen
                ),
                activities=lambda: {SubscriptionKey("orders", "crm"): self.activity()},
                replays=list,
                operators=OPERATORS,
                timers=(),
                unset_schedules={},
            )
            return status.run(replace(request, params={"what": name.partition("/")[2]}))
        if name.startswith("console/"):
            return ConsoleFiles({"index.html": b""}).run(request)
        if name.startswith(("metadata/", "adfs/")):
            form = f"grant_type=client_credentials&client_secret={token or ''}"
            login = AzLogin(is_on=True, operators=OPERATORS, public_url=None)
            return login.run(replace(request, body=form.encode()))
        if name.startswith("validate/"):
            return self.api.open_link(f"{HOST}/validate/{LINK}", method, headers)
        if name in {"api/events", "topics/{*path}"}:
            return self.publishing.answer(replace(request, params={}))
        return self._publish(token, headers)

    def _publish(self, token: str | None, headers: dict[str, str]) -> HttpAnswer:
        given = replace(self.publishing.publish.authorization, tokens=Tokens(**TOKENS))
        self.publishing.publish = replace(self.publishing.publish, authorization=given)
        self.publishing.subscribe()
        request = publish_request(event())
        kept = {k: v for k, v in request.headers.items() if k != "aeg-sas-key"}
        keys = {"aeg-sas-key": TOPIC_KEY} if token == TOPIC_KEY else headers
        return self.publishing.answer(replace(request, headers=kept | keys))


@pytest.mark.parametrize(
    ("method", "name", "caller", "said"),
    [pytest.param(*each, id=" ".join(each[:3])) for each in CELLS],
)
def test_each_cell_is_what_the_app_answers(
    app: Deployment, method: str, name: str, caller: str, said: str
) -> None:
    for token in CREDENTIALS[caller]:
        assert said in {"yes", "no", "by key", "without answers"}
        deployed = App(app)
        answers = list(deployed.asked(method, name, token))

        assert answers
        statuses = {each.status for each in answers}
        if said == "no" or (said == "by key" and token in TOKENS):
            assert statuses <= {401, 403}, (token, statuses)
            assert deployed.everything() == deployed.stored
            if "/" not in name or name.startswith("status/"):
                refused = [each for each in answers if each.status == 401]
                assert all(each.headers["WWW-Authenticate"] == "Bearer" for each in refused)
            if caller == "reader" and "/" not in name:
                assert statuses == {403}
            continue
        assert not statuses & {401, 403, 405}, (token, statuses)
        if name in {"attempts", "failures", "status/topics"}:
            shown = b"".join(each.body for each in answers)
            assert b"503 Busy" in shown
            assert (b"words of crm" in shown) == (said == "yes")


def test_a_refusal_says_what_is_needed() -> None:
    api = ArmApi()
    api.reconfigure(operators=OPERATORS)

    answer = api.call("POST", f"{ORDERS}/listKeys", headers={"authorization": "Bearer key-reads"})

    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (403, "AuthorizationFailed")
    assert error["message"] == (
        "The reader's key does not have authorization to perform this action: POST "
        f"{ORDERS}/listKeys needs the admin key, or an access token with the role "
        "'EventGrid Contributor'."
    )


@pytest.mark.parametrize(
    ("audience", "challenge"),
    [
        ("api://pushgrid", 'Bearer resource="api://pushgrid"'),
        ('a", b="', "Bearer"),
        ("a\r\nb", "Bearer"),
        ("", "Bearer"),
    ],
)
@pytest.mark.parametrize("token", [{}, {"authorization": "Bearer sender-of-another"}])
def test_who_is_not_known_learns_for_what_to_get_a_token(
    audience: str, challenge: str, token: dict[str, str]
) -> None:
    api = ArmApi()
    api.reconfigure(operators=replace(OPERATORS, audience=audience))

    refused = api.call("GET", ORDERS, headers=token)
    api.reconfigure(operators=replace(OPERATORS, audience=audience, tokens=None))
    without_tokens = api.call("GET", ORDERS, headers=token)

    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, challenge)
    assert (without_tokens.status, without_tokens.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_the_list_of_topics_says_who_asks(app: Deployment) -> None:
    answers = [App(app).asked("GET", "status/topics", token) for token in ("key-two", "reading")]

    assert [json.loads(next(each).body)["access"] for each in answers] == ["full", "read"]


def test_nobody_learns_which_routes_there_are() -> None:
    answer = ArmApi().call("GET", "/subscriptions/s1/nothing", headers={})

    assert answer.status == 401
    assert json.loads(answer.body)["error"]["code"] == "AuthenticationFailed"


def test_while_signing_keys_can_not_be_fetched_operators_are_asked_to_retry() -> None:
    api, tokens = ArmApi(), Tokens()
    tokens.down = True
    api.reconfigure(operators=Operators(tokens=tokens))

    answer = api.call("GET", "/subscriptions", headers={"authorization": "Bearer contributor"})

    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
