"""Names what Event Grid has and Pushgrid has not, and says what to use instead; README lists it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExcludedFeature(NamedTuple):
    """A feature of Event Grid, in the plural, and what to do instead here."""

    name: str
    instead: str

    @property
    def sentence(self) -> str:
        return f"{self.name} are not included here. Instead, {self.instead}."


_PARTNERS = ExcludedFeature("Partner topics", "let the partner publish to a custom topic")
PRIVATE = ExcludedFeature(
    "Private endpoints of topics",
    "give the function app a private endpoint, or set inboundIpRules of the topic",
)
MQTT = ExcludedFeature(
    "MQTT clients and topic spaces", "publish over HTTP to a topic of the namespace"
)
_DIAGNOSTICS = ExcludedFeature(
    "Diagnostic settings", "read the app's own log: it has a line for each failed delivery"
)
_SERVICE_BUS = ExcludedFeature(
    "Service Bus destinations", "use a webhook that sends the events on to the queue or topic"
)

# By resource type: what stands after a provider's name, in lower case.
RESOURCES: Mapping[str, ExcludedFeature] = {
    "domains": ExcludedFeature("Domains", "create a custom topic for each topic of the domain"),
    "extensiontopics": ExcludedFeature(
        "Extension topics", "create a system topic over a storage account"
    ),
    "partnerconfigurations": _PARTNERS,
    "partnerdestinations": ExcludedFeature("Partner destinations", "use a webhook"),
    "partnernamespaces": _PARTNERS,
    "partnerregistrations": _PARTNERS,
    "partnertopics": _PARTNERS,
    "verifiedpartners": _PARTNERS,
    "privateendpointconnections": PRIVATE,
    "privatelinkresources": PRIVATE,
    "networksecurityperimeterconfigurations": PRIVATE,
    "cacertificates": MQTT,
    "clientgroups": MQTT,
    "clients": MQTT,
    "permissionbindings": MQTT,
    "topicspaces": MQTT,
    "diagnosticsettings": _DIAGNOSTICS,
    "diagnosticsettingscategories": _DIAGNOSTICS,
}
DESTINATIONS: Mapping[str, ExcludedFeature] = {
    "EventHub": ExcludedFeature("Event hub destinations", "use a webhook that sends the events on"),
    "HybridConnection": ExcludedFeature("Relay destinations (hybrid connections)", "use a webhook"),
    "ServiceBusQueue": _SERVICE_BUS,
    "ServiceBusTopic": _SERVICE_BUS,
    "AzureFunction": ExcludedFeature(
        "Functions by resource id",
        "use a webhook with the function's URL in quotes: "
        "'https://APP.azurewebsites.net/runtime/webhooks/EventGrid?functionName=NAME&code=KEY'",
    ),
    "MonitorAlert": ExcludedFeature("Azure Monitor alerts", "use a webhook that raises the alert"),
    "NamespaceTopic": ExcludedFeature(
        "Namespace topics as destinations", "use a webhook that publishes to the namespace topic"
    ),
    "PartnerDestination": RESOURCES["partnerdestinations"],
}
TOPIC_TYPES = ExcludedFeature(
    "Topic types other than storage accounts and this deployment",
    "publish such events to a custom topic",
)
PULL = ExcludedFeature("Pull delivery and queue subscriptions", "subscribe a webhook")
CUSTOM_DOMAINS = ExcludedFeature(
    "Custom domains of namespaces", "give the function app the domain, and set PUSHGRID_PUBLIC_URL"
)
