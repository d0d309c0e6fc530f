"""Where the command's keys and tokens go: over http to this machine only, and to `--url` alone."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from urllib3.util import connection

from cli import options
from cli.deployment import Deployment
from cli.local.listen import _forward
from cli.sending import refuse_plain_http
from testbed.subscriber import Push
from tests.answering import Answer, AnsweringServer
from tests.commands import Run, runner
from tests.serving import serving

EMPTY = b'{"value": []}'
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
REFUSED = "is another machine, and http shows the key or token to everybody on the way: "
REFUSED += "use https, or add --insecure (or PUSHGRID_INSECURE=true)\n"


def empty(*_: str) -> Answer:
    return 200, {}, EMPTY


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxies, and no keys of this user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in (*PROXIES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    """The deployment."""
    with serving(AnsweringServer()) as server:
        server.answer = empty
        yield server


@pytest.fixture
def other() -> Iterator[AnsweringServer]:
    """Somebody who should get nothing."""
    with serving(AnsweringServer()) as server:
        server.answer = empty
        yield server


@pytest.fixture
def pushgrid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, admin_key="s3cret")


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were asked for; each is an address of this machine."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def answer(host: str, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


@pytest.mark.parametrize(
    "host",
    [
        "events.example",
        "localhost.example.com",
        "evil-localhost",
        "127.0.0.1.example",
        "127.1",
        "2130706433",
        "0.0.0.0",  # noqa: S104 - a host that is asked, not listened on
        "[::ffff:192.0.2.1]",
        "127.0.0.1%40evil.example",
    ],
)
def test_no_key_goes_over_http_to_another_machine(
    server: AnsweringServer, pushgrid: Run, lookups: list[str], host: str
) -> None:
    url = f"http://{host}:{server.port}"

    found = pushgrid("topic", "list", "--url", url)

    assert (found.code, found.out, found.err) == (2, "", f"pushgrid: {url} {REFUSED}")
    assert (server.requests, lookups) == ([], [])


@pytest.mark.parametrize("user", ["127.0.0.1@", "127.0.0.1\\@", "localhost:80@"])
def test_a_user_name_is_no_host(
    server: AnsweringServer, pushgrid: Run, lookups: list[str], user: str
) -> None:
    found = pushgrid("topic", "list", "--url", f"http://{user}evil.example:{server.port}")

    assert (found.code, server.requests, lookups) == (2, [], [])


COMMANDS = """
topic list --entra
topic create orders
topic keys orders
publish orders --type Placed
publish orders --type Placed --key of-the-topic
subscription list
subscription create crm -t orders --endpoint https://crm.example/
namespace list
listen --port 0 --topic orders
apply pushgrid.json
dead-letters list
dead-letters jobs
events resend e-1
explain -t orders --event event.json
timeline -t orders -s crm
status
top --once
"""


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_every_command_refuses_before_it_asks_for_anything(
    server: AnsweringServer,
    pushgrid: Run,
    lookups: list[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    Path("pushgrid.json").write_text('{"topics": {"orders": {}}}')
    Path("event.json").write_text('{"id": "1", "eventType": "a", "subject": "s"}')
    monkeypatch.setenv("PUSHGRID_URL", f"http://events.example:{server.port}")
    monkeypatch.setattr(options, "entra_token", lambda _: pytest.fail("a token was asked for"))

    found = pushgrid(*shlex.split(command))

    assert found.code == 2
    assert REFUSED in found.err
    assert (server.requests, lookups) == ([], [])


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST", "localhost.", "pushgrid.localhost"])
@pytest.mark.usefixtures("lookups")
def test_this_machine_is_asked_over_http(server: AnsweringServer, pushgrid: Run, host: str) -> None:
    found = pushgrid("topic", "list", "--url", f"http://{host}:{server.port}")

    assert found.code == 0
    assert {each["authorization"] for each in server.headers} == {"Bearer s3cret"}


@pytest.mark.parametrize(
    ("arguments", "variables", "sent"),
    [
        ([], {"ADMIN_KEY_FILE": "of-file"}, "of-file"),
        ([], {"READER_KEY_FILE": "of-file"}, "of-file"),
        ([], {"READER_KEY": "of-reader", "ADMIN_KEY_FILE": "of-file"}, "of-file"),
        (["--admin-key", "given"], {"ADMIN_KEY": "of-shell", "ADMIN_KEY_FILE": "/none"}, "given"),
    ],
)
def test_the_key_may_stand_in_a_file_as_the_servers(
    server: AnsweringServer,
    pushgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variables: dict[str, str],
    sent: str,
) -> None:
    """What is given comes first, then the admin key, then the reader's."""
    Path("of-file").write_text("of-file\n")
    monkeypatch.delenv("PUSHGRID_ADMIN_KEY")
    for name, text in variables.items():
        monkeypatch.setenv(f"PUSHGRID_{name}", text)

    found = pushgrid("topic", "list", "--url", server.url, *arguments)

    assert (found.code, found.err) == (0, "")
    assert {each["authorization"] for each in server.headers} == {f"Bearer {sent}"}


@pytest.mark.parametrize(
    ("key", "said"), [("k", "_KEY and PUSHGRID_ADMIN_KEY_FILE are both set"), ("", "can't be read")]
)
def test_a_file_that_can_not_be_used_is_named(
    server: AnsweringServer, pushgrid: Run, monkeypatch: pytest.MonkeyPatch, key: str, said: str
) -> None:
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY", key)
    monkeypatch.setenv("PUSHGRID_ADMIN_KEY_FILE", "/none")

    found = pushgrid("topic", "list", "--url", server.url)

    assert (found.code, server.requests) == (2, [])
    assert said in found.err


def test_all_of_127_is_this_machine(pushgrid: Run) -> None:
    with serving(AnsweringServer("127.0.0.2")) as server:
        server.answer = empty

        assert pushgrid("topic", "list", "--url", server.url).code == 0


@pytest.mark.parametrize("host", ["[::1]:7071", "127.255.255.254", "a.b.localhost"])
def test_what_stays_on_this_machine_is_not_refused(host: str) -> None:
    refuse_plain_http(f"HTTP://{host}/")


class _Elsewhere(socket.socket):
    """A connection to another machine, as its address says."""

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.7", 80


def test_a_name_server_that_lies_about_localhost_gets_nothing(
    server: AnsweringServer, pushgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []

    def connect(*_: object, **__: object) -> socket.socket:
        here = socket.create_connection(("127.0.0.1", server.port))
        made.append(_Elsewhere(fileno=here.detach()))
        return made[-1]

    monkeypatch.setattr(connection, "create_connection", connect)

    found = pushgrid("topic", "list", "--url", f"http://pushgrid.localhost:{server.port}")

    assert (found.code, server.requests) == (2, [])
    assert found.err == f"pushgrid: http://pushgrid.localhost, here 192.0.2.7, {REFUSED}"
    assert [each.fileno() for each in made] == [-1]


@pytest.mark.parametrize(
    ("options", "environ", "code"),
    [
        (["--insecure"], {}, 0),
        ([], {"PUSHGRID_INSECURE": "true"}, 0),
        ([], {"PUSHGRID_INSECURE": "false"}, 2),
    ],
)
@pytest.mark.usefixtures("lookups")
def test_who_must_may(
    server: AnsweringServer,
    pushgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    environ: dict[str, str],
    code: int,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    found = pushgrid("topic", "list", "--url", f"http://events.example:{server.port}", *options)

    assert (found.code, bool(server.requests)) == (code, not code)


@pytest.mark.parametrize("variable", PROXIES)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_for_this_machine_passes_no_proxy(
    server: AnsweringServer,
    other: AnsweringServer,
    pushgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    host: str,
) -> None:
    monkeypatch.setenv(variable, other.url)

    found = pushgrid("topic", "list", "--url", f"http://{host}:{server.port}")
    push = Push(at=0, path="/", headers={}, body=b"{}")
    forwarded = _forward(push, f"{server.url}/hook")

    assert (found.code, other.requests) == (0, [])
    assert forwarded is not None
    assert forwarded.text == "200"
    assert ("POST", "/hook") in server.requests


def test_a_netrc_does_not_replace_the_key(
    server: AnsweringServer, pushgrid: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("default login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    assert pushgrid("topic", "list", "--url", server.url).code == 0

    assert {each["authorization"] for each in server.headers} == {"Bearer s3cret"}


@pytest.mark.parametrize("public_url", ["{other}", "{other}@", "https://events.example", "/"])
def test_the_next_page_is_asked_for_at_the_deployment_that_was_named(
    server: AnsweringServer, other: AnsweringServer, pushgrid: Run, public_url: str
) -> None:
    """Its link has the public URL of the deployment, or of whoever wants the key."""
    start = public_url.format(other=other.url)
    link = f"{start}/elsewhere?api-version=1&$skiptoken=a%2Bb%20c"

    def answer(_: str, path: str) -> Answer:
        is_first = path.endswith("/topics") and "skiptoken" not in server.targets[-1]
        page: dict[str, object] = {"value": [], "nextLink": link if is_first else None}
        return 200, {}, json.dumps(page).encode()

    server.answer = answer

    found = pushgrid("topic", "list", "--url", server.url)

    assert (found.code, other.requests) == (0, [])
    first, second = (each for each in server.targets if "EventGrid/topics?" in each)
    assert second == f"{first}&%24skiptoken=a%2Bb+c"


@pytest.mark.parametrize("link", ["https://[", "/topics", 7, {"a": 1}])
def test_a_link_without_a_token_ends_the_list(
    server: AnsweringServer, pushgrid: Run, link: object
) -> None:
    server.answer = lambda *_: (200, {}, json.dumps({"value": [], "nextLink": link}).encode())

    found = pushgrid("topic", "list", "--url", server.url)

    assert (found.code, found.out) == (1, "")
    assert found.err == "pushgrid: the answer's nextLink has no $skiptoken\n"
    assert len(server.requests) == 1


def test_who_does_not_speak_tls_gets_no_advice_to_use_http(
    server: AnsweringServer, pushgrid: Run, lookups: list[str]
) -> None:
    found = pushgrid("topic", "list", "--url", f"https://events.example:{server.port}")

    assert (found.code, lookups) == (2, ["events.example"])
    assert "(it does not speak TLS): is the address, with its port, right?" in found.err
    assert "http://" not in found.err


@pytest.fixture
def scopes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scopes that Entra ID was asked for tokens of."""
    asked: list[str] = []

    def token(scope: str) -> str:
        asked.append(scope)
        return "a-token"

    monkeypatch.setattr(options, "entra_token", token)
    return asked


def asks_for(audience: str) -> Callable[[str, str], Answer]:
    """Answer as a deployment that takes tokens for *audience*."""

    def answer(_: str, path: str) -> Answer:
        if path == "/status/topics":
            return 401, {"WWW-Authenticate": f'Bearer resource="{audience}"'}, b"{}"
        return 200, {}, EMPTY

    return answer


@pytest.mark.parametrize(
    ("audience", "scope"),
    [
        ("api://127.0.0.1", "api://127.0.0.1/.default"),
        ("https://127.0.0.1/pushgrid/", "https://127.0.0.1/pushgrid/.default"),
    ],
)
def test_a_token_is_for_the_audience_of_the_deployment_s_own_host(
    server: AnsweringServer, pushgrid: Run, scopes: list[str], audience: str, scope: str
) -> None:
    server.answer = asks_for(audience)

    assert pushgrid("topic", "list", "--url", server.url, "--entra").code == 0

    assert set(scopes) == {scope}
    first, *others = server.headers
    assert "authorization" not in first
    assert {each["authorization"] for each in others} == {"Bearer a-token"}


@pytest.mark.parametrize(
    "audience",
    [
        "https://management.azure.com",
        "api://6f1c1f1e-0000-0000-0000-000000000000",
        "6f1c1f1e-0000-0000-0000-000000000000",
        "api://127.0.0.1.example",
        "api://x.127.0.0.1",
        "api://127.0.0.1:x",
        "urn://127.0.0.1",
    ],
)
def test_a_host_gets_no_token_that_is_good_elsewhere_unless_it_is_named(
    server: AnsweringServer, pushgrid: Run, scopes: list[str], audience: str
) -> None:
    server.answer = asks_for(audience)
    scope = f"{audience}/.default"

    found = pushgrid("topic", "list", "--url", server.url, "--entra")

    assert (found.code, found.out, scopes) == (2, "", [])
    assert found.err == (
        f"pushgrid: {server.url} wants a token for {audience}, which may be good elsewhere, too: "
        f"if it may have one, add --entra-scope {scope} (or set PUSHGRID_ENTRA_SCOPE)\n"
    )
    given = pushgrid("topic", "list", "--url", server.url, "--entra", "--entra-scope", scope)
    assert (given.code, set(scopes)) == (0, {scope})


@pytest.mark.parametrize(
    "audience",
    ["", "api://127.0.0.1 https://management.azure.com", "api://127.0.0.1?x", "api://me@127.0.0.1"],
)
def test_what_is_no_audience_is_none(
    server: AnsweringServer, pushgrid: Run, scopes: list[str], audience: str
) -> None:
    server.answer = asks_for(audience)

    found = pushgrid("topic", "list", "--url", server.url, "--entra")

    assert (found.code, scopes) == (2, [])
    assert (
        "names no audience: unless PUSHGRID_ENTRA_TENANT is set there, give the admin key"
        in found.err
    )


@pytest.mark.usefixtures("lookups")
def test_over_http_from_another_machine_no_audience_is_believed(
    server: AnsweringServer, pushgrid: Run, scopes: list[str]
) -> None:
    server.answer = asks_for("api://events.example")
    url = f"http://events.example:{server.port}"

    found = pushgrid("topic", "list", "--url", url, "--entra", "--insecure")

    assert (found.code, scopes, server.requests) == (2, [], [])
    assert "with --entra and --insecure, give --entra-scope" in found.err


@pytest.mark.parametrize("audience", ["api://", "api:///x", "https://:443/x"])
def test_a_url_whose_host_is_unreadable_gets_no_token_for_an_audience_without_one(
    pushgrid: Run, scopes: list[str], monkeypatch: pytest.MonkeyPatch, audience: str
) -> None:
    monkeypatch.setattr(Deployment, "challenge", lambda _: f'Bearer resource="{audience}"')

    found = pushgrid("topic", "list", "--url", "https://bücher.example", "--entra")

    assert (found.code, scopes) == (2, [])
    assert "which may be good elsewhere, too" in found.err
