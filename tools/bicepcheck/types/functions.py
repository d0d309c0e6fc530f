"""Signatures of Bicep's functions and decorators, from Bicep's documentation."""

from __future__ import annotations

from collections.abc import Iterator

from tools.bicepcheck.immutable import Immutable
from tools.bicepcheck.types import kinds as t


class Signature(Immutable):
    """*variadic*: the type of any further arguments; *minimum*: the number of required ones."""

    args: tuple[t.Type, ...]
    returns: t.Type
    minimum: int
    variadic: t.Type | None = None

    def accepts(self, count: int) -> bool:
        """Return whether a call may have that many arguments."""
        return self.minimum <= count and (self.variadic is not None or count <= len(self.args))

    def argument(self, at: int) -> t.Type:
        """Return the type of an argument, counted from 0."""
        return self.args[at] if at < len(self.args) else self.variadic or t.ANY


def _object(name: str, strings: str, **others: t.Type) -> t.Obj:
    return t.object_of({**dict.fromkeys(strings.split(), t.STRING), **others}, name)


_STRINGS = t.Arr(of=t.STRING)
_TYPES: dict[str, t.Type] = {
    "string": t.STRING,
    "int": t.INT,
    "bool": t.BOOL,
    "array": t.ARRAY,
    "object": t.OBJECT,
    "any": t.ANY,
    "null": t.NULL,
    "strings": _STRINGS,
    "ints": t.Arr(of=t.INT),
    "13 characters": t.Str(min_length=13, max_length=13),
    "36 characters": t.Str(min_length=36, max_length=36),
    "items": t.Arr(of=_object("item", "key", value=t.ANY)),
    "subscription": _object("subscription", "id subscriptionId tenantId displayName"),
    "resourceGroup": _object(
        "resourceGroup", "id name type location managedBy", tags=t.OBJECT, properties=t.ANY
    ),
    "managementGroup": _object("managementGroup", "id name type", properties=t.ANY),
    "tenant": _object("tenant", "tenantId country countryCode displayName"),
    "deployment": _object("deployment", "name location id type scope", properties=t.ANY),
    "deployer": _object("deployer", "objectId tenantId userPrincipalName"),
    "environment": _object(
        "environment",
        "activeDirectoryDataLake batch gallery graph graphAudience media name portal"
        " resourceManager sqlManagement vmImageAliasDoc",
        authentication=_object(
            "authentication", "identityProvider loginEndpoint tenant", audiences=_STRINGS
        ),
        suffixes=_object(
            "suffixes",
            "acrLoginServer azureDatalakeAnalyticsCatalogAndJob azureDatalakeStoreFileSystem"
            " azureFrontDoorEndpointSuffix keyvaultDns sqlServerHostname storage",
        ),
    ),
}
_SIGNATURES = """
base64 base64ToString dataUri dataUriToString loadFileAsBase64: string -> string
toLower toUpper trim uriComponent uriComponentToString: string -> string
base64ToJson json parseCidr fail: string -> any
startsWith endsWith: string, string -> bool
indexOf lastIndexOf: string|array, any -> int
string nameof: any -> string
concat: string|int|bool|array, ...string|int|bool|array -> any
format: string, ...any -> string
guid: string, ...string -> 36 characters
uniqueString: string, ...string -> 13 characters
newGuid: -> string
join: array, string -> string
padLeft: string|int, int, [string] -> string
replace: string, string, string -> string
split: string, string|array -> strings
substring: string, int, [int] -> string
uri: string, string -> string
bool: any -> bool
int: string|int -> int
max min: int|array, ...int -> int
range: int, int -> ints
array: any -> array
any: any -> any
contains: string|array|object, any -> bool
empty: string|array|object|null -> bool
first last: string|array -> any
skip take: string|array, int -> any
length: string|array|object -> int
flatten: array -> array
items: object -> items
intersection union: array|object, array|object, ...array|object -> any
objectKeys: object -> strings
shallowMerge: array -> object
createArray: ...any -> array
createObject: ...any -> object
tryGet: array|object, string|int, ...any -> any
map filter sort: array, any -> array
reduce: array, any, any -> any
toObject: array, any, [any] -> object
groupBy: array, any -> object
mapValues: object, any -> object
resourceId subscriptionResourceId tenantResourceId: string, string, ...string -> string
managementGroupResourceId: string, string, ...string -> string
extensionResourceId: string, string, string, ...string -> string
reference: string, [string], [string] -> any
pickZones: string, string, string, ...any -> strings
toLogicalZone: string, string, string -> string
providers: string, ...string -> any
subscription: [string] -> subscription
resourceGroup: [string], [string] -> resourceGroup
managementGroup: [string] -> managementGroup
tenant: -> tenant
deployment: -> deployment
deployer: -> deployer
environment: -> environment
utcNow: [string] -> string
dateTimeAdd: string, string, [string] -> string
dateTimeFromEpoch: int -> string
dateTimeToEpoch: string -> int
loadTextContent: string, [string] -> string
loadJsonContent loadYamlContent: string, [string], [string] -> any
cidrSubnet: string, int, int -> string
cidrHost: string, int -> string
"""
"""Optional arguments are in brackets; ``...`` precedes the type of any number of arguments."""


def _signatures(text: str) -> Iterator[tuple[str, Signature]]:
    for line in text.strip().splitlines():
        names, _, rest = line.partition(":")
        takes, _, returns = rest.partition("-> ")
        args = takes.strip().split(", ") if takes.strip() else []
        kinds = [t.union(_TYPES[one] for one in arg.strip("[].").split("|")) for arg in args]
        variadic = bool(args) and args[-1].startswith("...")
        signature = Signature(
            args=tuple(kinds[:-1] if variadic else kinds),
            returns=_TYPES[returns],
            minimum=sum(not arg.startswith(("[", "...")) for arg in args),
            variadic=kinds[-1] if variadic else None,
        )
        yield from ((name, signature) for name in names.split())


FUNCTIONS: dict[str, Signature] = dict(_signatures(_SIGNATURES))

RESOURCE_FUNCTIONS = ("getSecret", "listKeys", "listSas", "list")
PARAM_DEFAULT_FUNCTIONS = ("newGuid", "utcNow")
"""Functions that only the default of a parameter may call."""
FILE_FUNCTIONS = ("loadTextContent", "loadFileAsBase64", "loadJsonContent", "loadYamlContent")

DECORATORS: dict[str, tuple[type[t.Type], ...] | None] = {
    **dict.fromkeys(
        (
            "description", "metadata", "allowed", "export", "discriminator", "batchSize",
            "onlyIfNotExists", "retryOn", "waitUntil",
        )
    ),
    "secure": (t.Str, t.Obj),
    "minLength": (t.Str, t.Arr),
    "maxLength": (t.Str, t.Arr),
    "minValue": (t.Int,),
    "maxValue": (t.Int,),
    "sealed": (t.Obj,),
}  # fmt: skip
"""Decorators, and the types that they apply to; ``None``: all."""
