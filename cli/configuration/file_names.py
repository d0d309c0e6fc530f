"""Names the members of `pushgrid.json`, of ARM templates and of their parameter files."""

from __future__ import annotations

from shared.arm import document_names as documents
from shared.arm.member_names import FreeNames, Names

_SUBSCRIPTIONS = FreeNames(documents.SUBSCRIPTION.also("consent"))
_OF_NAMESPACES = FreeNames(documents.NAMESPACE_SUBSCRIPTION.also("consent"))
_KEYS = Names("key1", "key2")
_SOURCES = FreeNames(Names(eventSubscriptions=_SUBSCRIPTIONS))
CONFIGURATION = Names(
    "$schema",
    topics=FreeNames(documents.TOPIC.also(keys=_KEYS, eventSubscriptions=_SUBSCRIPTIONS)),
    systemTopics=FreeNames(documents.SYSTEM_TOPIC.also(eventSubscriptions=_SUBSCRIPTIONS)),
    storageAccounts=_SOURCES,
    deployments=_SOURCES,
    namespaces=FreeNames(
        documents.NAMESPACE.also(
            keys=_KEYS,
            topics=FreeNames(
                documents.NAMESPACE_TOPIC.also(keys=_KEYS, eventSubscriptions=_OF_NAMESPACES)
            ),
        )
    ),
)

_GIVEN = FreeNames(Names("value", "reference"))
PARAMETER_FILE = Names("$schema", "contentVersion", parameters=_GIVEN)

COPY = Names("name", "count", "input", "mode", "batchSize")
_TYPE = Names(
    "$ref",
    "type",
    "defaultValue",
    "allowedValues",
    "minLength",
    "maxLength",
    "minValue",
    "maxValue",
    "nullable",
)
_TYPES = FreeNames(_TYPE)
# A type nests in itself.
_TYPE.below.update(
    dict.fromkeys(("items", "prefixItems", "additionalProperties"), _TYPE),
    properties=_TYPES,
    discriminator=Names("propertyName", mapping=_TYPES),
)
_MODULE = Names(  # the properties of a nested deployment; those of other resources have none of it
    "template",
    parameters=_GIVEN,
    expressionEvaluationOptions=Names("scope"),
)
_RESOURCE = Names(
    "type",
    "name",
    "location",
    "tags",
    "identity",
    "sku",
    "kind",
    "condition",
    "scope",
    "existing",
    "resourceGroup",
    "subscriptionId",
    "resources",
    copy=COPY,
    properties=_MODULE,
)
TEMPLATE = Names(
    "$schema",
    definitions=_TYPES,
    parameters=_TYPES,
    variables=Names(copy=COPY),
    functions=Names(
        "namespace",
        members=FreeNames(
            Names(parameters=_TYPE.also("name"), output=Names("type", "value")),
        ),
    ),
    resources=FreeNames(_RESOURCE),
    outputs=FreeNames(Names("type", "value", copy=COPY)),
)
# Both nest in themselves.
_RESOURCE.below["resources"] = TEMPLATE.below["resources"]
_MODULE.below["template"] = TEMPLATE
