"""What Bicep's functions take and give, from its documentation."""

from __future__ import annotations

from dataclasses import dataclass

from tools.bicepcheck.types import kinds as t

_S, _I, _B, _A, _O, _X = t.STRING, t.INT, t.BOOL, t.ARRAY, t.OBJECT, t.ANY
_STRINGS = t.Arr(of=_S)
_LIST = t.union([_S, _A, _O])
_RUNTIME_SCOPE = {
    "resourceGroup": ["id", "name", "type", "location", "managedBy", "tags", "properties"],
    "subscription": ["id", "subscriptionId", "tenantId", "displayName"],
    "managementGroup": ["id", "name", "type", "properties"],
    "tenant": ["tenantId", "country", "countryCode", "displayName"],
    "deployment": ["name", "properties", "location", "id", "type", "scope"],
}
_SUFFIXES = (
    "acrLoginServer", "azureDatalakeAnalyticsCatalogAndJob", "azureDatalakeStoreFileSystem",
    "azureFrontDoorEndpointSuffix", "keyvaultDns", "sqlServerHostname", "storage",
)  # fmt: skip
_ENVIRONMENT = (
    "activeDirectoryDataLake", "batch", "gallery", "graph", "graphAudience", "media", "name",
    "portal", "resourceManager", "sqlManagement", "vmImageAliasDoc",
)  # fmt: skip


def _object(members: dict[str, t.Type], name: str) -> t.Obj:
    fields = {key: t.Field(type=kind, required=True) for key, kind in members.items()}
    return t.Obj(fields=fields, name=name)


def _built_in(name: str) -> t.Type:
    loose = {"tags": _O, "properties": _X}
    return _object({key: loose.get(key, _S) for key in _RUNTIME_SCOPE[name]}, name)


ENVIRONMENT = _object(
    {
        **dict.fromkeys(_ENVIRONMENT, _S),
        "authentication": _object(
            {"audiences": _STRINGS, "identityProvider": _S, "loginEndpoint": _S, "tenant": _S},
            "authentication",
        ),
        "suffixes": _object(dict.fromkeys(_SUFFIXES, _S), "suffixes"),
    },
    "environment",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """*rest*: the type of any further arguments; *least*: how many must be there."""

    args: tuple[t.Type, ...]
    gives: t.Type
    least: int
    rest: t.Type | None = None


def _takes(
    *args: t.Type, gives: t.Type, least: int | None = None, rest: t.Type | None = None
) -> Signature:
    return Signature(args=args, gives=gives, least=len(args) if least is None else least, rest=rest)


FUNCTIONS: dict[str, Signature] = {
    # text
    "base64": _takes(_S, gives=_S),
    "base64ToJson": _takes(_S, gives=_X),
    "base64ToString": _takes(_S, gives=_S),
    "concat": _takes(gives=_X, rest=t.union([_S, _I, _B, _A]), least=1),
    "dataUri": _takes(_S, gives=_S),
    "dataUriToString": _takes(_S, gives=_S),
    "endsWith": _takes(_S, _S, gives=_B),
    "format": _takes(_S, gives=_S, rest=_X),
    "guid": _takes(_S, gives=t.Str(shortest=36, longest=36), rest=_S),
    "indexOf": _takes(t.union([_S, _A]), _X, gives=_I),
    "join": _takes(_A, _S, gives=_S),
    "lastIndexOf": _takes(t.union([_S, _A]), _X, gives=_I),
    "newGuid": _takes(gives=_S),
    "padLeft": _takes(t.union([_S, _I]), _I, _S, gives=_S, least=2),
    "replace": _takes(_S, _S, _S, gives=_S),
    "split": _takes(_S, t.union([_S, _A]), gives=_STRINGS),
    "startsWith": _takes(_S, _S, gives=_B),
    "string": _takes(_X, gives=_S),
    "substring": _takes(_S, _I, _I, gives=_S, least=2),
    "toLower": _takes(_S, gives=_S),
    "toUpper": _takes(_S, gives=_S),
    "trim": _takes(_S, gives=_S),
    "uniqueString": _takes(_S, gives=t.Str(shortest=13, longest=13), rest=_S),
    "uri": _takes(_S, _S, gives=_S),
    "uriComponent": _takes(_S, gives=_S),
    "uriComponentToString": _takes(_S, gives=_S),
    # numbers, logic
    "bool": _takes(_X, gives=_B),
    "int": _takes(t.union([_S, _I]), gives=_I),
    "max": _takes(t.union([_I, _A]), gives=_I, rest=_I),
    "min": _takes(t.union([_I, _A]), gives=_I, rest=_I),
    "range": _takes(_I, _I, gives=t.Arr(of=_I)),
    # lists, objects
    "array": _takes(_X, gives=_A),
    "contains": _takes(_LIST, _X, gives=_B),
    "empty": _takes(t.nullable(_LIST), gives=_B),
    "first": _takes(t.union([_S, _A]), gives=_X),
    "last": _takes(t.union([_S, _A]), gives=_X),
    "length": _takes(_LIST, gives=_I),
    "skip": _takes(t.union([_S, _A]), _I, gives=_X),
    "take": _takes(t.union([_S, _A]), _I, gives=_X),
    "flatten": _takes(_A, gives=_A),
    "items": _takes(_O, gives=t.Arr(of=_object({"key": _S, "value": _X}, "item"))),
    "intersection": _takes(t.union([_A, _O]), gives=_X, rest=t.union([_A, _O]), least=2),
    "union": _takes(t.union([_A, _O]), gives=_X, rest=t.union([_A, _O]), least=2),
    "objectKeys": _takes(_O, gives=_STRINGS),
    "shallowMerge": _takes(_A, gives=_O),
    "createArray": _takes(gives=_A, rest=_X),
    "createObject": _takes(gives=_O, rest=_X),
    "tryGet": _takes(t.union([_A, _O]), t.union([_S, _I]), gives=_X, rest=_X),
    "json": _takes(_S, gives=_X),
    # lambdas
    "map": _takes(_A, _X, gives=_A),
    "filter": _takes(_A, _X, gives=_A),
    "reduce": _takes(_A, _X, _X, gives=_X),
    "sort": _takes(_A, _X, gives=_A),
    "toObject": _takes(_A, _X, _X, gives=_O, least=2),
    "groupBy": _takes(_A, _X, gives=_O),
    "mapValues": _takes(_O, _X, gives=_O),
    # resources, scopes
    "resourceId": _takes(_S, _S, gives=_S, rest=_S),
    "subscriptionResourceId": _takes(_S, _S, gives=_S, rest=_S),
    "tenantResourceId": _takes(_S, _S, gives=_S, rest=_S),
    "extensionResourceId": _takes(_S, _S, _S, gives=_S, rest=_S),
    "managementGroupResourceId": _takes(_S, _S, gives=_S, rest=_S),
    "reference": _takes(_S, _S, _S, gives=_X, least=1),
    "pickZones": _takes(_S, _S, _S, gives=_STRINGS, rest=_X),
    "toLogicalZone": _takes(_S, _S, _S, gives=_S),
    "providers": _takes(_S, gives=_X, least=1, rest=_S),
    "subscription": _takes(_S, gives=_built_in("subscription"), least=0),
    "resourceGroup": _takes(_S, _S, gives=_built_in("resourceGroup"), least=0),
    "managementGroup": _takes(_S, gives=_built_in("managementGroup"), least=0),
    "tenant": _takes(gives=_built_in("tenant")),
    "deployment": _takes(gives=_built_in("deployment")),
    "deployer": _takes(
        gives=_object({"objectId": _S, "tenantId": _S, "userPrincipalName": _S}, "deployer")
    ),
    "environment": _takes(gives=ENVIRONMENT),
    # time, files
    "utcNow": _takes(_S, gives=_S, least=0),
    "dateTimeAdd": _takes(_S, _S, _S, gives=_S, least=2),
    "dateTimeFromEpoch": _takes(_I, gives=_S),
    "dateTimeToEpoch": _takes(_S, gives=_I),
    "loadTextContent": _takes(_S, _S, gives=_S, least=1),
    "loadFileAsBase64": _takes(_S, gives=_S),
    "loadJsonContent": _takes(_S, _S, _S, gives=_X, least=1),
    "loadYamlContent": _takes(_S, _S, _S, gives=_X, least=1),
    "cidrSubnet": _takes(_S, _I, _I, gives=_S),
    "cidrHost": _takes(_S, _I, gives=_S),
    "parseCidr": _takes(_S, gives=_X),
    "nameof": _takes(_X, gives=_S),
    "any": _takes(_X, gives=_X),
    "fail": _takes(_S, gives=_X),
}

RESOURCE_FUNCTIONS = ("getSecret", "listKeys", "listSas", "list")
DEFAULTS_ONLY = ("newGuid", "utcNow")
"""Functions that a parameter's default alone may call."""
FILES = ("loadTextContent", "loadFileAsBase64", "loadJsonContent", "loadYamlContent")

DECORATORS: dict[str, tuple[type[t.Type], ...] | None] = {
    "description": None,
    "metadata": None,
    "secure": (t.Str, t.Obj),
    "allowed": None,
    "minLength": (t.Str, t.Arr),
    "maxLength": (t.Str, t.Arr),
    "minValue": (t.Int,),
    "maxValue": (t.Int,),
    "export": None,
    "sealed": (t.Obj,),
    "discriminator": None,
    "batchSize": None,
    "onlyIfNotExists": None,
    "retryOn": None,
    "waitUntil": None,
}
"""Decorators, and the types they fit; ``None``: any."""
