"""Signatures of Bicep's functions and decorators, from Bicep's documentation."""

from __future__ import annotations

from collections.abc import Iterable

from tools.bicepcheck.immutable import Immutable
from tools.bicepcheck.types import kinds as t

_S, _I, _B, _A, _O, _X = t.STRING, t.INT, t.BOOL, t.ARRAY, t.OBJECT, t.ANY
_STRINGS = t.Arr(of=_S)
_SA, _SI, _AO, _SAO = t.union([_S, _A]), t.union([_S, _I]), t.union([_A, _O]), t.union([_S, _A, _O])


def _object(name: str, strings: str, **others: t.Type) -> t.Obj:
    return t.object_of({**dict.fromkeys(strings.split(), _S), **others}, name)


_ENVIRONMENT = _object(
    "environment",
    "activeDirectoryDataLake batch gallery graph graphAudience media name portal resourceManager"
    " sqlManagement vmImageAliasDoc",
    authentication=_object(
        "authentication", "identityProvider loginEndpoint tenant", audiences=_STRINGS
    ),
    suffixes=_object(
        "suffixes",
        "acrLoginServer azureDatalakeAnalyticsCatalogAndJob azureDatalakeStoreFileSystem"
        " azureFrontDoorEndpointSuffix keyvaultDns sqlServerHostname storage",
    ),
)


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


def _takes(
    *args: t.Type, returns: t.Type, minimum: int | None = None, more: t.Type | None = None
) -> Signature:
    least = len(args) if minimum is None else minimum
    return Signature(args=args, returns=returns, minimum=least, variadic=more)


def _all(names: str, signature: Signature) -> Iterable[tuple[str, Signature]]:
    return [(name, signature) for name in names.split()]


FUNCTIONS: dict[str, Signature] = dict(
    [
        # strings
        *_all(
            "base64 base64ToString dataUri dataUriToString loadFileAsBase64 toLower toUpper trim"
            " uriComponent uriComponentToString",
            _takes(_S, returns=_S),
        ),
        *_all("base64ToJson json parseCidr fail", _takes(_S, returns=_X)),
        *_all("startsWith endsWith", _takes(_S, _S, returns=_B)),
        *_all("indexOf lastIndexOf", _takes(_SA, _X, returns=_I)),
        *_all("string nameof", _takes(_X, returns=_S)),
        ("concat", _takes(returns=_X, more=t.union([_S, _I, _B, _A]), minimum=1)),
        ("format", _takes(_S, returns=_S, more=_X)),
        ("guid", _takes(_S, returns=t.Str(min_length=36, max_length=36), more=_S)),
        ("uniqueString", _takes(_S, returns=t.Str(min_length=13, max_length=13), more=_S)),
        ("join", _takes(_A, _S, returns=_S)),
        ("newGuid", _takes(returns=_S)),
        ("padLeft", _takes(_SI, _I, _S, returns=_S, minimum=2)),
        ("replace", _takes(_S, _S, _S, returns=_S)),
        ("split", _takes(_S, _SA, returns=_STRINGS)),
        ("substring", _takes(_S, _I, _I, returns=_S, minimum=2)),
        ("uri", _takes(_S, _S, returns=_S)),
        # numbers, logic
        ("bool", _takes(_X, returns=_B)),
        ("int", _takes(_SI, returns=_I)),
        *_all("max min", _takes(t.union([_I, _A]), returns=_I, more=_I)),
        ("range", _takes(_I, _I, returns=t.Arr(of=_I))),
        # lists, objects
        ("array", _takes(_X, returns=_A)),
        ("any", _takes(_X, returns=_X)),
        ("contains", _takes(_SAO, _X, returns=_B)),
        ("empty", _takes(t.nullable(_SAO), returns=_B)),
        *_all("first last", _takes(_SA, returns=_X)),
        *_all("skip take", _takes(_SA, _I, returns=_X)),
        ("length", _takes(_SAO, returns=_I)),
        ("flatten", _takes(_A, returns=_A)),
        ("items", _takes(_O, returns=t.Arr(of=_object("item", "key", value=_X)))),
        *_all("intersection union", _takes(_AO, returns=_X, more=_AO, minimum=2)),
        ("objectKeys", _takes(_O, returns=_STRINGS)),
        ("shallowMerge", _takes(_A, returns=_O)),
        ("createArray", _takes(returns=_A, more=_X)),
        ("createObject", _takes(returns=_O, more=_X)),
        ("tryGet", _takes(_AO, _SI, returns=_X, more=_X)),
        # lambdas
        *_all("map filter sort", _takes(_A, _X, returns=_A)),
        ("reduce", _takes(_A, _X, _X, returns=_X)),
        ("toObject", _takes(_A, _X, _X, returns=_O, minimum=2)),
        ("groupBy", _takes(_A, _X, returns=_O)),
        ("mapValues", _takes(_O, _X, returns=_O)),
        # resources, scopes
        *_all(
            "resourceId subscriptionResourceId tenantResourceId managementGroupResourceId",
            _takes(_S, _S, returns=_S, more=_S),
        ),
        ("extensionResourceId", _takes(_S, _S, _S, returns=_S, more=_S)),
        ("reference", _takes(_S, _S, _S, returns=_X, minimum=1)),
        ("pickZones", _takes(_S, _S, _S, returns=_STRINGS, more=_X)),
        ("toLogicalZone", _takes(_S, _S, _S, returns=_S)),
        ("providers", _takes(_S, returns=_X, more=_S)),
        (
            "subscription",
            _takes(
                _S,
                returns=_object("subscription", "id subscriptionId tenantId displayName"),
                minimum=0,
            ),
        ),
        (
            "resourceGroup",
            _takes(
                _S,
                _S,
                returns=_object(
                    "resourceGroup", "id name type location managedBy", tags=_O, properties=_X
                ),
                minimum=0,
            ),
        ),
        (
            "managementGroup",
            _takes(
                _S, returns=_object("managementGroup", "id name type", properties=_X), minimum=0
            ),
        ),
        ("tenant", _takes(returns=_object("tenant", "tenantId country countryCode displayName"))),
        (
            "deployment",
            _takes(returns=_object("deployment", "name location id type scope", properties=_X)),
        ),
        ("deployer", _takes(returns=_object("deployer", "objectId tenantId userPrincipalName"))),
        ("environment", _takes(returns=_ENVIRONMENT)),
        # time, files, networks
        ("utcNow", _takes(_S, returns=_S, minimum=0)),
        ("dateTimeAdd", _takes(_S, _S, _S, returns=_S, minimum=2)),
        ("dateTimeFromEpoch", _takes(_I, returns=_S)),
        ("dateTimeToEpoch", _takes(_S, returns=_I)),
        ("loadTextContent", _takes(_S, _S, returns=_S, minimum=1)),
        *_all("loadJsonContent loadYamlContent", _takes(_S, _S, _S, returns=_X, minimum=1)),
        ("cidrSubnet", _takes(_S, _I, _I, returns=_S)),
        ("cidrHost", _takes(_S, _I, returns=_S)),
    ]
)

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
