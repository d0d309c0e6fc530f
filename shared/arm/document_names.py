"""
Names the members of management documents, as they are documented.

What the codecs read is here, and what Azure publishes and Pushgrid ignores: an unknown name that is
like one of these is refused as misspelt.

Source: the models of azure-mgmt-eventgrid 10.4.0 and 9.0.0; bodies of our own actions.
"""

from __future__ import annotations

from shared.arm.member_names import FreeNames, Names

FREE = FreeNames()

_RESOURCE = Names("id", "name", "type", "systemData", "extendedLocation")
_IDENTITY = Names(
    "type",
    "principalId",
    "tenantId",
    userAssignedIdentities=FreeNames(Names("principalId", "clientId")),
)
_TRACKED = _RESOURCE.also(
    "location",
    "kind",
    tags=FREE,
    identity=_IDENTITY,
    sku=Names("name", "tier", "size", "family", "capacity"),
)
_NETWORK = {
    "publicNetworkAccess": None,
    "inboundIpRules": Names("ipMask", "action"),
    "minimumTlsVersionAllowed": None,
    "privateEndpointConnections": None,
    "provisioningState": None,
}

_FIELD = Names("sourceField", "defaultValue")
TOPIC = _TRACKED.also(
    properties=Names(
        "disableLocalAuth",
        "dataResidencyBoundary",
        "encryption",
        "endpoint",
        "inputSchema",
        "metricResourceId",
        inputSchemaMapping=Names(
            "inputSchemaMappingType",
            properties=Names(
                id=_FIELD,
                topic=_FIELD,
                eventTime=_FIELD,
                eventType=_FIELD,
                subject=_FIELD,
                dataVersion=_FIELD,
            ),
        ),
        eventTypeInfo=Names(
            "kind",
            inlineEventTypes=FreeNames(
                Names("description", "displayName", "documentationUrl", "dataSchemaUrl")
            ),
        ),
        **_NETWORK,
    )
)
SYSTEM_TOPIC = _TRACKED.also(
    properties=Names(
        "source", "topicType", "metricResourceId", "platformCapabilities", "provisioningState"
    )
)
_CUSTOM_DOMAIN = Names(
    "fullyQualifiedDomainName",
    "validationState",
    "identity",
    "certificateUrl",
    "expectedTxtRecordName",
    "expectedTxtRecordValue",
)
NAMESPACE = _TRACKED.also(
    properties=Names(
        "isZoneRedundant",
        topicsConfiguration=Names("hostname", customDomains=_CUSTOM_DOMAIN),
        topicSpacesConfiguration=Names(
            "state",
            "routeTopicResourceId",
            "hostname",
            "routingEnrichments",
            "clientAuthentication",
            "maximumSessionExpiryInHours",
            "maximumClientSessionsPerAuthenticationName",
            "routingIdentityInfo",
            customDomains=_CUSTOM_DOMAIN,
        ),
        **_NETWORK,
    )
)
NAMESPACE_TOPIC = _RESOURCE.also(
    properties=Names("publisherType", "inputSchema", "eventRetentionInDays", "provisioningState")
)

_IDENTITY_USED = Names("type", "userAssignedIdentity")
_MAPPING = Names(
    "name",
    "type",
    properties=Names("value", "isSecret", "sourceField"),
)
_DESTINATION = Names(
    "endpointType",
    properties=Names(  # of all endpoint types
        "endpointUrl",
        "endpointBaseUrl",
        "maxEventsPerBatch",
        "preferredBatchSizeInKilobytes",
        "azureActiveDirectoryTenantId",
        "azureActiveDirectoryApplicationIdOrUri",
        "minimumTlsVersionAllowed",
        "resourceId",
        "queueName",
        "queueMessageTimeToLiveInSeconds",
        "severity",
        "description",
        "actionGroups",
        deliveryAttributeMappings=_MAPPING,
    ),
)
_DEAD_LETTER = Names("endpointType", properties=Names("resourceId", "blobContainerName"))
_DELIVERY_WITH_IDENTITY = Names(identity=_IDENTITY_USED, destination=_DESTINATION)
_DEAD_LETTER_WITH_IDENTITY = Names(identity=_IDENTITY_USED, deadLetterDestination=_DEAD_LETTER)
_ADVANCED = Names("operatorType", "key", "value", "values")
_FILTER = Names(
    "subjectBeginsWith",
    "subjectEndsWith",
    "includedEventTypes",
    "isSubjectCaseSensitive",
    "enableAdvancedFilteringOnArrays",
)
_SUBSCRIPTION_PROPERTIES = Names(
    "topic",
    "provisioningState",
    "labels",
    "expirationTimeUtc",
    "eventDeliverySchema",
    destination=_DESTINATION,
    deliveryWithResourceIdentity=_DELIVERY_WITH_IDENTITY,
    filter=_FILTER.also(advancedFilters=_ADVANCED),
    retryPolicy=Names("maxDeliveryAttempts", "eventTimeToLiveInMinutes"),
    deadLetterDestination=_DEAD_LETTER,
    deadLetterWithResourceIdentity=_DEAD_LETTER_WITH_IDENTITY,
)
SUBSCRIPTION = _RESOURCE.also(properties=_SUBSCRIPTION_PROPERTIES)
SUBSCRIPTION_PATCH = _SUBSCRIPTION_PROPERTIES  # flat
NAMESPACE_SUBSCRIPTION = _RESOURCE.also(
    properties=Names(
        "provisioningState",
        "eventDeliverySchema",
        "expirationTimeUtc",
        tags=FREE,
        deliveryConfiguration=Names(
            "deliveryMode",
            queue=Names(
                "receiveLockDurationInSeconds",
                "maxDeliveryCount",
                "eventTimeToLive",
                deadLetterDestinationWithResourceIdentity=_DEAD_LETTER_WITH_IDENTITY,
            ),
            push=Names(
                "maxDeliveryCount",
                "eventTimeToLive",
                destination=_DESTINATION,
                deliveryWithResourceIdentity=_DELIVERY_WITH_IDENTITY,
                deadLetterDestination=_DEAD_LETTER,
                deadLetterDestinationWithResourceIdentity=_DEAD_LETTER_WITH_IDENTITY,
            ),
        ),
        filtersConfiguration=_FILTER.also(filters=_ADVANCED),
    )
)

# Bodies of actions.
REGENERATE_KEY = Names("keyName", "keyValue")
ROTATE_SECRET = Names("secret")
REPLAY = Names(
    "topic",
    "subscription",
    "container",
    "account",
    "prefix",
    "since",
    "until",
    "reason",
    "event",
    "rate",
    "dryRun",
    "again",
    "unproven",
    to=Names("topic", "subscription"),
)
