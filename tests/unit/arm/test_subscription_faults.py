"""Event subscriptions that are refused, and the faults that are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.arm.subscription_codec import to_subscription
from shared.subscriptions.destination import StorageQueue
from tests.unit.arm.documents import (
    ACCOUNT_ID,
    DEPLOYMENT,
    faults,
    refusal,
    subscription,
    topic,
    webhook,
    with_member,
)

WEBHOOK = "destination.properties"
DEAD = "deadLetterDestination"
WITH_IDENTITY = {"identity": {"type": "SystemAssigned"}, "destination": webhook()}
CLOUD = "CloudEventSchemaV1_0"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("filter.includedEventTypes", ["a", 1], "a list of strings"),
        ("filter.subjectBeginsWith", 1, "a string"),
        ("filter.isSubjectCaseSensitive", "yes", "true or false"),
        ("filter.isSubjectCaseSensitive", 1, "true or false"),
        ("labels", "x", "a list of strings"),
        ("expirationTimeUtc", "2026-02-09T12:00:00Z", "2026-02-09T12:00:00Z is over: a time in"),
        ("expirationTimeUtc", "2030-01-01", "ISO 8601"),
        ("expirationTimeUtc", "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z is over: a time in"),
        ("expirationTimeUtc", "9999-12-31T23:59:60Z", "ISO 8601"),
        ("expirationTimeUtc", "9999-12-31T23:59:59-01:00", "ISO 8601"),
        ("eventDeliverySchema", "Xml", "it can be"),
        ("deadLetterWithResourceIdentity.identity.type", None, "is missing"),
        ("deliveryWithResourceIdentity", WITH_IDENTITY, "exclude each other"),
        ("destination", None, "The destination is missing."),
        ("destination.endpointType", None, "missing"),
        ("destination.endpointType", "Pigeon", "it can be: WebHook, "),
        (f"{WEBHOOK}.endpointUrl", None, "Supplied URL is invalid"),
        (f"{WEBHOOK}.endpointUrl", 5, "must be a string"),
        (f"{WEBHOOK}.endpointUrl", "http://crm.example/", "Supplied URL is invalid. It cannot be"),
        (f"{WEBHOOK}.maxEventsPerBatch", 0, "between 1 and 5000"),
        (f"{WEBHOOK}.maxEventsPerBatch", 5001, "between 1 and 5000"),
        (f"{WEBHOOK}.preferredBatchSizeInKilobytes", 1025, "between 1 and 1024"),
        (f"{WEBHOOK}.azureActiveDirectoryTenantId", "t", "PUSHGRID_WEBHOOK_CLIENT_ID"),
        (f"{WEBHOOK}.azureActiveDirectoryApplicationIdOrUri", "a", "are not set"),
        (f"{WEBHOOK}.minimumTlsVersionAllowed", "2", "it can be"),
        (f"{DEAD}.endpointType", None, "missing"),
        (f"{DEAD}.endpointType", "EventHub", "it can be: StorageBlob"),
        (f"{DEAD}.properties.resourceId", None, "is missing"),
        *(
            (
                f"{DEAD}.properties.resourceId",
                ACCOUNT_ID.format(account=account),
                f"names, not to '{account}'",
            )
            for account in ("other", "acct2", "cct")
        ),
        *(
            (f"{DEAD}.properties.resourceId", resource_id, "the ARM id of a storage account")
            for resource_id in (
                "acct",
                "/storageAccounts/acct",
                *(ACCOUNT_ID.format(account=name) for name in ("AC", "ACCT", "a" * 25, "a.b", "")),
                *(ACCOUNT_ID.format(account=name) for name in ("acct/", "acct\n", "acct/x/y")),
                f"https://management.azure.com{ACCOUNT_ID.format(account='acct')}",
                *(
                    ACCOUNT_ID.format(account="acct").replace(part, wrong)
                    for part, wrong in {
                        "/subscriptions/s1": "",
                        "s1": "s/1",
                        "resourceGroups": "groups",
                        "rg": "r.",
                        "/rg": "/",
                        "Microsoft.Storage": "Microsoft-Storage",
                        "storageAccounts": "classicStorageAccounts",
                    }.items()
                ),
            )
        ),
        (f"{DEAD}.properties.blobContainerName", None, "is missing"),
        *(
            (f"{DEAD}.properties.blobContainerName", name, "must be 3-63 lower-case")
            for name in ["ab", "a" * 64, "Dead", "de--ad", "-dead", "dead-", "a.b", "dead\n"]
        ),
        *(
            (f"{DEAD}.properties.blobContainerName", name, "is reserved for the app")
            for name in ("payloads", "poison", "azure-webjobs-", "app-package", "$root")
        ),
        *(
            (f"retryPolicy.{name}", value, f"must be a whole number between 1 and {most}")
            for name, most in {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440}.items()
            for value in (0, most + 1, "99999", " 5", "5 x", "\u0665", "9" * 5000, 5.0, True)
        ),
    ],
)
def test_a_bad_member_is_refused(path: str, value: object, words: str) -> None:
    found, message = refusal(subscription, **with_member(path, value))

    assert found == f"properties.{path}"
    assert words in message


def queue(**members: object) -> dict[str, Any]:
    """Return a storage queue as destination, in which each member has this value."""
    given = {"resourceId": ACCOUNT_ID.format(account="acct"), "queueName": "crm-in"} | members
    return {"endpointType": "storagequeue", "properties": given}


@pytest.mark.parametrize(
    ("resource_id", "why"),
    [
        ("acct", "it is a name; 'az storage account show --query id' prints the id"),
        ("https://acct.blob.core.windows.net", "it is a URL; 'az storage account show --query id'"),
        (ACCOUNT_ID.format(account="acct/"), "it goes on after the account"),
        (
            ACCOUNT_ID.format(account="acct/blobServices/default/containers/dead"),
            "it goes on after the account",
        ),
        (ACCOUNT_ID.format(account="acct\n"), "it has a blank or a line break before or after it"),
        (ACCOUNT_ID.format(account="acct")[1:], "it has no '/' before it"),
        (ACCOUNT_ID.format(account="Acct"), "the name of an account is 3-24 small letters"),
    ],
)
def test_what_is_no_account_id_is_told_by_its_form(resource_id: str, why: str) -> None:
    properties = with_member(f"{DEAD}.properties.resourceId", resource_id)

    assert f"/NAME ({why}" in refusal(subscription, **properties)[1]


OTHERS = replace(DEPLOYMENT, dead_letter_accounts={"acct2", "acct3"}, queue_accounts={"acct2"})


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("resourceId", None, "resourceId is missing"),
        ("resourceId", 5, "must be a string"),
        ("resourceId", "acct", "the ARM id of a storage account"),
        (
            "resourceId",
            ACCOUNT_ID.format(account="else"),
            "Events can only go to the app's own storage account, 'acct', or to one that",
        ),
        ("resourceId", ACCOUNT_ID.format(account="acct3"), "where the queues of 'acct3' are"),
        ("queueName", None, "queueName is missing"),
        *(("queueName", name, "must be 3-63 lower-case") for name in ["ab", "Crm"]),
        *(
            ("queueName", name, "is reserved for the app")
            for name in ("deliveries", "retries", "waiting", "deadletters", "mine-poison")
        ),
        *(
            ("queueName", name, "is reserved for the app")
            for name in ("azure-webjobs-blobtrigger-app", "webjobs-shared")
        ),
        *(
            ("queueMessageTimeToLiveInSeconds", seconds, "seconds from 1 on, or -1, for ever")
            for seconds in (0, -2, 2**31, 60.0, True)
        ),
        *(
            (name, "x", "applies to webhooks, not to a storage queue")
            for name in (
                *("deliveryAttributeMappings", "maxEventsPerBatch", "endpointUrl"),
                *("preferredBatchSizeInKilobytes", "azureActiveDirectoryTenantId"),
                *("minimumTlsVersionAllowed", "azureActiveDirectoryApplicationIdOrUri"),
            )
        ),
    ],
)
def test_a_bad_queue_is_refused(member: str, value: object, words: str) -> None:
    destination = queue(**{member: value})

    found, message = refusal(subscription, destination=destination, deployment=OTHERS)

    assert found == f"properties.{WEBHOOK}.{member}"
    assert words in message


def test_a_server_whose_own_account_has_no_queues_names_those_that_have() -> None:
    deployment = replace(OTHERS, has_queues=False)

    found, message = refusal(subscription, destination=queue(), deployment=deployment)

    assert found == f"properties.{WEBHOOK}.resourceId"
    assert message == (
        "Events can only go to a storage account on Azure that PUSHGRID_DEADLETTER_ACCOUNTS names, "
        "not to 'acct'."
    )


def test_a_queue_of_another_account_may_have_any_name() -> None:
    wanted = queue(resourceId=ACCOUNT_ID.format(account="acct2"), queueName="deliveries")

    stored = subscription(destination=wanted, deployment=OTHERS)

    destination = to_subscription(stored).destination
    assert isinstance(destination, StorageQueue)
    assert (destination.account, destination.keep_seconds) == ("acct2", 7 * 24 * 3600)


def test_a_wrapper_needs_a_destination() -> None:
    wrapped = {"identity": {"type": "SystemAssigned"}}

    found = refusal(subscription, destination=None, deliveryWithResourceIdentity=wrapped)

    where = "properties.deliveryWithResourceIdentity.destination"
    assert found == (where, "The destination is missing.")


def one(operator: str | None = "StringIn", key: object = "data.a", **members: Any) -> Any:
    return {"operatorType": operator, "key": key, **members}


@pytest.mark.parametrize(
    ("document", "member", "words"),
    [
        (one(None), "operatorType", "is missing"),
        (one("StringIs"), "operatorType", "it can be: NumberIn,"),
        (one(values=[]), "values", "must be a list of strings, at least one"),
        (one(values="a"), "values", "must be a list of strings"),
        (one(values=[1]), "values", "must be a list of strings"),
        (one(values=["x" * 513]), "values", "512 characters"),
        (one("NumberIn", values=["1"]), "values", "list of numbers"),
        (one("NumberIn", values=[True]), "values", "list of numbers"),
        (one("NumberLessThan", values=[1]), "value", "a number"),
        (one("NumberLessThan", value=10**400), "value", "a number"),
        (one("NumberNotInRange", values=[[1, 2], [10, 1]]), "values", "smaller number first: [[1,"),
        (one("NumberInRange", values=[[1, 2], [3]]), "values", "pairs"),
        (one("BoolEquals", value="true"), "value", "true or false"),
        (one("IsNotNull", key=None), "key", "is missing"),
        *(
            (one(key=key, values=["a"]), "key", f"'{key}' is not a key of an event; use id, topic")
            for key in ("", "data.", "data..b", "subject.a", "source")
        ),
    ],
)
def test_a_bad_advanced_filter_is_refused(document: Any, member: str, words: str) -> None:
    found, message = refusal(subscription, filter={"advancedFilters": [document]})

    assert found == f"properties.filter.advancedFilters[0].{member}"
    assert words in message


def test_filters_and_values_are_limited_in_number() -> None:
    def refused(*filters: Any) -> str:
        return refusal(subscription, filter={"advancedFilters": list(filters)})[1]

    short = one("IsNotNull")
    values = [one(values=["a"] * 24), one("BoolEquals", value=True), short]
    subscription(filter={"advancedFilters": [short] * 25})
    subscription(filter={"advancedFilters": values})

    assert "at most 25 advanced filters" in refused(*[short] * 26)
    assert "at most 25 values, not 26" in refused(*values, one(values=["b"]))


def test_cloud_events_can_have_any_attribute_as_key() -> None:
    of = topic(inputSchema=CLOUD)
    dynamic = {"name": "x", "type": "Dynamic"}

    for key in ("source", "Type", "specversion", "subject", "anextension", "data.x"):
        header = {**dynamic, "properties": {"sourceField": key}}
        destination = webhook(deliveryAttributeMappings=[header])
        advanced = {"advancedFilters": [one(key=key, values=["a"])]}
        subscription(of=of, filter=advanced, destination=destination)

    header = {**dynamic, "properties": {"sourceField": "source.a"}}
    destination = webhook(deliveryAttributeMappings=[header])
    advanced = {"advancedFilters": [one(key="source.a", values=["a"])]}
    for fault in faults(subscription, of=of, filter=advanced, destination=destination):
        assert fault.message.endswith(
            "; use an attribute of the event, or 'data.NAME' for a value in data."
        )


@pytest.mark.parametrize("name", ["", "ab", "a" * 65, "a_b", "a b", "na\u00efve", "abc\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    assert refusal(subscription, name=name)[0] == "name"


@pytest.mark.parametrize("destination", ["x", [], 0])
def test_a_destination_must_be_an_object(destination: object) -> None:
    fault = faults(subscription, destination=destination)[0]

    assert fault.message == "properties.destination must be an object."
