"""A webhook that Entra ID protects, with an Entra ID on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from devhost.azurite import Azurite
from devhost.process import running_host
from testbed.arm import Arm
from testbed.host_settings import host_settings
from testbed.subscriber import Subscriber
from tests.e2e.publishing import an_event, send
from tests.integration.push.authority import Authority
from tests.integration.push.entra import TENANT, Entra

CLIENT = "66666666-7777-8888-9999-aaaaaaaaaaaa"
SECRET = "s3cret-of-the-app"


def test_handshake_delivery_and_notice_have_the_token(
    own_azurite: Azurite, subscriber: Callable[..., Subscriber], tmp_path: Path
):
    authority = Authority(tmp_path)
    endpoint = subscriber()
    with Entra(authority) as entra:
        settings = host_settings(
            own_azurite,
            PUSHGRID_WEBHOOK_CLIENT_ID=CLIENT,
            PUSHGRID_WEBHOOK_CLIENT_SECRET=SECRET,
            PUSHGRID_WEBHOOK_AUTHORITY=entra.url,
            REQUESTS_CA_BUNDLE=str(authority.bundle),
        )
        with running_host(settings) as host:
            arm = Arm(host.url)
            arm.create_topic("protected")
            protection = {
                "azureActiveDirectoryTenantId": TENANT,
                "azureActiveDirectoryApplicationIdOrUri": "api://hook",
            }
            arm.create_subscription("protected", "crm", endpoint.url, protection)
            send(host.url, "protected", arm.key("protected"), [an_event()])
            assert endpoint.wait_for(lambda pushes: len(pushes) == 1)
            arm.delete_subscription("protected", "crm")

    requests_of_ours = [*endpoint.handshakes, *endpoint.pushes, *endpoint.notices]
    assert len(requests_of_ours) == 3
    assert {each.headers["authorization"] for each in requests_of_ours} == {"Bearer token-1"}
    assert [asked["scope"] for asked in entra.asked] == ["api://hook/.default"]
    assert not any(SECRET in line or "token-1" in line for line in host.lines)
