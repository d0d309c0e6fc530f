"""What is printed for wrong input: the cause and what to do, in at most two lines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pushgrid.testing.deployment import Pushgrid
from pushgrid.testing.driven_app import ACCOUNT_ID
from tests.commands import Run

NEW = "subscription create new -t orders --endpoint https://a.example/"
# What is typed | the exit code | what is printed
TABLE = """
topic show|2|Missing argument 'NAME'
topic show nix|1|there is no topic 'nix': see 'pushgrid topic list'
topic show nix.nix|1|there is no topic 'nix.nix': see 'pushgrid topic list'
topic show ''|2|a name is empty
topic show orders?b=c|1|pushgrid: 40
topic create orders|1|there is already a topic 'orders'
topic create orders.|2|a name is empty
topic create k|1|3-50 letters
topic create new --input-schema xml|2|none of eventgrid (EventGridSchema)
topic create new --tag team|2|write name=value
topic create new --tag =red|2|write name=value
topic create shop.inv --profile 2019|2|only custom topics have these
topic create shop.inv --tag x=y|2|only custom topics have these
topic create new --profile 1999|1|There is no delivery profile '1999'
topic create shop.inv --retention-days 9|2|is not a whole number from 1 to 7
topic update orders|2|nothing to change
topic update orders --set disableLocalAuht=true|1|disableLocalAuht is unknown; did you mean
topic update orders --set colour=red|1|colour: a topic has no such property
topic update orders --set disableLocalAuth=perhaps|1|must be true or false
topic delete nix|1|there is no topic 'nix'
topic delete orders|2|add --yes
topic keys orders --regenerate key3|2|'key3' is not one of
namespace show nix|1|there is no namespace 'nix': see 'pushgrid namespace list'
namespace show shop/topics/invoices|1|pushgrid: 40
namespace delete shop|2|add --yes
subscription create new|2|Missing option '--topic'
subscription create new -t orders|2|Missing option '--endpoint' or '--queue'
subscription create crm -t orders --endpoint https://a.example/|1|add --replace
subscription create new -t nix --endpoint https://a.example/|1|there is no topic 'nix'
subscription create new -t orders --endpoint localhost:9000|2|write http://localhost:9000
subscription create new -t orders --endpoint ftp://a.example/|1|it does not begin with https://
subscription create new -t orders --endpoint https://nobody.example/|1|Check the host's name
NEW --filter 'total over 3'|2|Write it like
NEW --event-types ,|2|an event type is missing
NEW --max-attempts 99|2|'99' is not a whole number from 1 to 30
NEW --time-to-live soon|2|write 90m, 6h or 2d
NEW --time-to-live 9999999999d|2|write 90m, 6h or 2d
NEW --time-to-live 3d|1|--time-to-live, in minutes, must be a whole number between 1 and 1440
NEW --signing-secret bad|1|InvalidRequest: --signing-secret must begin with 'whsec_'
NEW --expires 2020-01-01T00:00:00Z|1|--expires: Invalid expiration time
NEW --header 'X Y=1'|1|--header: 'X Y' is not a valid header name
NEW --secret-header aeg-x=1|1|--secret-header: The header aeg-x can't be set
NEW --header webhook-max-rate=abc|2|webhook-max-rate is no header: give --max-rate
NEW --secret-header Webhook-Max-Rate=7|2|is no header: give --max-rate
NEW --header-from webhook-signature=data.x|2|give --signing-secret
NEW --header-from X=body.x|1|--header-from: The key 'body.x'
NEW --filter 'data.x.y.z. > 1'|1|--filter: The key
NEW --batch-kilobytes 5000|1|InvalidRequest: --batch-kilobytes must be a whole number
NEW --dead-letter-container A!|1|InvalidRequest: --dead-letter-container must be 3-63
NEW --dead-letter-container d-l --dead-letter-account /x|1|--dead-letter-account must be the ARM id
NEW --schema custom|1|--schema: The specified EventDeliverySchema
NEW --entra-tenant x|1|--entra-tenant: This app
subscription create new -t orders --queue A!|1|InvalidRequest: --queue must be 3-63
subscription create new -t orders --queue deliveries|1|--queue: The queue 'deliveries'
subscription create new -t orders --queue q-in --queue-account /x|1|--queue-account must be
subscription create new -t orders --queue q-in --queue-time-to-live 99999d|1|--queue-time-to
subscription update crm -t shop.invoices --max-attempts 30|1|InvalidRequest: --max-attempts must be
NEW --batch 0|1|between 1 and 5000
NEW --schema xml|2|custom (CustomInputSchema)
NEW --header nothing|2|write name=value
subscription create new -t shop.invoices --endpoint https://a.example/ --label x|2|have none
subscription create new -t shop.a --endpoint https://a.example/ --subject-ends-with y|2|use --filter
subscription update crm -t orders|2|nothing to change
subscription update crm -t orders --endpoint ''|2|needs one of them
subscription update crm -t orders --signing-secret whsec_x|1|has a character too few or too many
subscription update crm -t orders --signing-secret Hidden|1|is 'Hidden', but no secret is stored
subscription update crm -t orders --no-sign --signing-secret x|2|only one of them can be given
subscription create new -t orders --queue q-in --sign|2|--sign: messages in a storage queue
subscription rotate crm -t orders|1|Sign them first: 'pushgrid subscription update NAME --topic
subscription rotate crm -t orders --secret x|1|secret must begin with 'whsec_'
subscription rotate nobody -t orders|1|there is no event subscription
subscription create new -t orders --queue q-in --max-rate 5|2|a storage queue needs no limit
subscription update crm -t orders --max-rate 0|2|'0' must be a whole number between 1 and 100000
NEW --max-rate 20/m|2|between 1 and 100000 requests a second: write 20/s
subscription update crm -t orders --max-requests 5/s|2|'5/s' must be a whole number
subscription update crm -t orders --max-requests 100001|2|'100001' must be a whole number
NEW --queue q-in|2|give --queue, or --endpoint with its options, but not both
subscription update inbox -t orders --batch 10|2|is a StorageQueue, which takes no such option
subscription update crm -t orders --queue-time-to-live 1h|2|is a WebHook, which takes no such opt
NEW --filter ''|2|--filter: an empty value removes; 'update' takes it
NEW --dead-letter-container ''|2|--dead-letter-container: an empty value removes
NEW --expires ''|2|--expires: an empty value removes
subscription update nix -t orders --batch 3|1|there is no event subscription 'nix' of 'orders'
subscription delete crm -t orders|2|add --yes
subscription delete crm -t nix|1|there is no event subscription 'crm'
subscription delete '' -t orders --yes|2|a name is empty
subscription pause nix -t orders|1|see 'pushgrid subscription list'
publish orders|2|Give a FILE, or --type
publish nix --type a|1|see 'pushgrid topic list'
publish system-testing --type a|2|name a custom topic
publish orders nix.json|2|No such file
publish orders --type a --key wrong|1|The key is not one of the topic's
publish orders --type a --key wrong|1|'pushgrid topic keys orders' prints its keys
publish shop.invoices --type a --key wrong|1|'pushgrid topic keys shop.invoices'
publish orders --type a --key schlüssel|2|no request can carry
timeline -t nix -s crm|1|There is no topic 'nix'
timeline -t system-nix -s crm|1|The storage account 'nix' is not known here
timeline -t systemTopics/nix -s crm|1|there is no system topic 'nix': see 'pushgrid topic list'
explain --event e.json -t system-nix|2|'system-nix' is a source
timeline -t orders -s crm --since yesterday|2|write 6h, 2d
timeline -t orders -s crm --most 0|2|'--most'
timeline -t orders -s crm#b|1|pushgrid: 40
dead-letters list --since 1h --until 2h|2|--until must be later
dead-letters show nix|1|no event subscription has a dead-letter blob
dead-letters show CRM/2026/2/9/12/none.json|1|no event subscription has a dead-letter blob 'CRM/2026
dead-letters replay --to crm --container azure|2|write TOPIC/SUBSCRIPTION
dead-letters replay -t orders -s none|1|There is no event subscription 'none' of topic 'orders'.
dead-letters replay -t none|1|There is no topic 'none'.
dead-letters replay -t shop.none|1|There is no topic 'shop.none'.
dead-letters replay -t orders -s drops|1|'drops' of topic 'orders' has no dead-letter destination
dead-letters replay --container azure|1|'to'
dead-letters cancel nix|1|There is no replay 'nix'
events resend nix|1|only dead letters keep the event
apply nix.json|2|No such file
apply .|2|is a directory
dev --time-scale nan|2|'nan' is not a number
dev --workers two|2|'two' is not a whole number from 1 to 64
top --interval 0|2|of 1 or more
status --url https://nosuch.invalid|2|(Failed to resolve 'nosuch.invalid' (
status --url https://nosuch.invalid|2|)). Start a deployment with 'pushgrid serve'
status --url 127.0.0.1:7071|2|write http://127.0.0.1:7071
status --url events.example|2|write https://events.example
status --url http://events.example|2|use https, or add --insecure
topic list --key wrong|1|Give the admin key with --admin-key
status --key wrong|1|PUSHGRID_ADMIN_KEY
topic list -o xml|2|is not one of 'json', 'table'
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_wrong_input_is_explained(
    pushgrid: Pushgrid, run: Run, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.json").write_text('{"id": "1", "eventType": "a", "subject": "s"}')
    orders, invoices = pushgrid.topic("orders"), pushgrid.topic("invoices", namespace="shop")
    queue = {"resourceId": ACCOUNT_ID, "queueName": "inbox"}
    for topic in (orders, invoices):
        topic.subscribe("crm")
    orders.subscribe("inbox", destination={"endpointType": "StorageQueue", "properties": queue})
    orders.subscribe("drops", deadLetterDestination=None)
    typed, code, words = row.replace("NEW", NEW).split("|")

    found = run(*shlex.split(typed))

    assert (found.code, found.out) == (int(code), "")
    assert words in found.err
    assert len(found.err.splitlines()) <= 2
    for unwanted in ("Traceback", "aka.ms", "support ticket"):
        assert unwanted not in found.err
