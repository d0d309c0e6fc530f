"""Requests to storage are counted under what they do."""

from __future__ import annotations

import pytest

from testbed.storage_requests import kind_of

ACCOUNT = "/devstoreaccount1"


@pytest.mark.parametrize(
    ("service", "verb", "target", "kind"),
    [
        ("queue", "POST", "/deliveries/messages?visibilitytimeout=0", "queue put deliveries"),
        ("queue", "GET", "/deliveries/messages?numofmessages=16", "queue get deliveries"),
        ("queue", "GET", "/waiting/messages?peekonly=true", "queue peek waiting"),
        ("queue", "DELETE", "/retries/messages/a%2Fb?popreceipt=c", "queue delete retries"),
        ("queue", "PUT", "/retries/messages/ab?popreceipt=c", "queue update retries"),
        ("queue", "GET", "/retries?comp=metadata", "queue metadata retries"),
        ("queue", "GET", "/?comp=list", "queue list account"),
        ("blob", "PUT", "/payloads/2026020912/x", "blob write payloads"),
        ("blob", "GET", "/payloads/2026020912/x", "blob read payloads"),
        ("blob", "GET", "/payloads?restype=container&comp=list", "blob list payloads"),
        (
            "blob",
            "PUT",
            "/azure-webjobs-hosts/locks/x?comp=lease",
            "blob lease azure-webjobs-hosts",
        ),
        ("blob", "POST", "/payloads?restype=container&comp=batch", "blob batch payloads"),
        ("blob", "PUT", "/dead?restype=container", "blob create dead"),
        ("table", "GET", "/topics(PartitionKey='a',RowKey='b')", "table query topics"),
        ("table", "GET", "/attempts20260209()?$top=3", "table query attempts"),
        ("table", "POST", "/attempts20260209", "table insert attempts"),
        ("table", "PATCH", "/metrics20260209(PartitionKey='a',RowKey='b')", "table write metrics"),
        ("table", "POST", "/$batch", "table batch"),
        ("table", "GET", "/Tables()", "table list Tables"),
        ("table", "POST", "/Tables", "table create Tables"),
        ("table", "TRACE", "/topics", "table TRACE topics"),
    ],
)
def test_a_request_is_named_by_what_it_does(service: str, verb: str, target: str, kind: str):
    assert kind_of(service, verb, ACCOUNT + target) == kind
