"""Decides which addresses a push may go to; it judges the very address that is connected to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from shared.settings.network_settings import Network

Address = IPv4Address | IPv6Address

# What the platform serves to the machine it runs on: credentials, mostly. No list opens these.
# Sources: the clouds' documentation of their metadata services (2026); for OCI's IPv6 its SDK for
# Python, DEFAULT_METADATA_URL_BASE_IPV6; for Alibaba Cloud's cloud-init, DataSourceAliYun.py.
_PLATFORM: tuple[tuple[Network, str], ...] = (
    (IPv4Network("169.254.0.0/16"), "instance metadata"),  # all clouds, with ECS and EKS of AWS
    (IPv4Network("168.63.129.16/32"), "Azure's wire server"),
    (IPv4Network("100.100.100.200/32"), "instance metadata"),  # Alibaba Cloud
    (IPv4Network("192.0.0.192/32"), "instance metadata"),  # Oracle Cloud Classic
    (IPv6Network("fd00:42::42/128"), "instance metadata"),  # Scaleway
    (IPv6Network("fd00:100::100:200/128"), "instance metadata"),  # Alibaba Cloud
    (IPv6Network("fd00:a9fe:a9fe::1/128"), "instance metadata"),  # Akamai
    (IPv6Network("fd00:c1::a9fe:a9fe/128"), "instance metadata"),  # Oracle Cloud Infrastructure
    (IPv6Network("fd00:ec2::23/128"), "pod identity"),  # EKS of AWS
    (IPv6Network("fd00:ec2::254/128"), "instance metadata"),  # AWS
    (IPv6Network("fd20:ce::254/128"), "instance metadata"),  # Google Cloud
    (IPv6Network("fe80::a9fe:a9fe/128"), "instance metadata"),  # OpenStack
)

# IANA's special-purpose registries; Python's own `is_global` follows them only in later releases.
_SPECIAL: tuple[tuple[Network, str], ...] = (
    (IPv4Network("0.0.0.0/8"), "this network"),
    (IPv4Network("10.0.0.0/8"), "private"),
    (IPv4Network("100.64.0.0/10"), "carrier-grade NAT"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("172.16.0.0/12"), "private"),
    (IPv4Network("192.0.0.0/24"), "protocol assignments"),
    (IPv4Network("192.0.2.0/24"), "documentation"),
    (IPv4Network("192.88.99.0/24"), "6to4 relay"),
    (IPv4Network("192.168.0.0/16"), "private"),
    (IPv4Network("198.18.0.0/15"), "benchmarking"),
    (IPv4Network("198.51.100.0/24"), "documentation"),
    (IPv4Network("203.0.113.0/24"), "documentation"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
    (IPv6Network("::1/128"), "loopback"),
    (IPv6Network("::/96"), "IPv4-compatible"),
    (IPv6Network("::ffff:0:0:0/96"), "IPv4-translated"),
    (IPv6Network("64:ff9b::/96"), "NAT64"),
    (IPv6Network("64:ff9b:1::/48"), "NAT64"),
    (IPv6Network("100::/64"), "discard"),
    (IPv6Network("2001:db8::/32"), "documentation"),
    (IPv6Network("2001::/32"), "Teredo"),
    (IPv6Network("2001::/23"), "protocol assignments"),
    (IPv6Network("2002::/16"), "6to4"),
    (IPv6Network("3fff::/20"), "documentation"),
    (IPv6Network("5f00::/16"), "segment routing"),
    (IPv6Network("fc00::/7"), "private"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("ff00::/8"), "multicast"),
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_IPV4_LAST = (
    IPv6Network("::/96"),
    IPv6Network("::ffff:0:0:0/96"),
    IPv6Network("64:ff9b::/96"),
    _NAT64_LOCAL,
)
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class OutboundGuard:
    """
    Refuses the addresses that a subscriber's URL must not reach.

    *allowed_networks* opens ranges that are not public. *app_addresses* are the host and
    port pairs of this app, *identity_endpoints* those at which the platform hands out tokens; like
    the platform's own addresses they stay closed whatever is allowed.
    """

    def __init__(
        self,
        *,
        allow_http: bool = False,
        allowed_networks: Sequence[Network] = (),
        app_addresses: Collection[tuple[str, int]] = (),
        identity_endpoints: Collection[tuple[str, int]] = (),
    ) -> None:
        self._allow_http = allow_http
        self._allowed = tuple(allowed_networks)
        self._app = frozenset((_plain(host), port) for host, port in app_addresses)
        self._tokens = frozenset((_plain(host), port) for host, port in identity_endpoints)
        self._loopback_tokens = frozenset(
            port for host, port in self._tokens if _is_loopback_name(host)
        )

    def refuse_server(self, scheme: str, host: str, port: int) -> str | None:
        """Return why a URL of this scheme and host is refused before anything is resolved."""
        name = _plain(host)
        if scheme != "https" and not (scheme == "http" and self._allow_http):
            return f"scheme {scheme} is not allowed"
        if (name, port) in self._app:
            return f"{name} is this app itself"
        if (name, port) in self._tokens:
            return f"{name}:{port} hands out tokens"
        return None

    def refusal(self, address: Address, port: int | None = None) -> str | None:
        """Return why nothing may be sent to *address*, or ``None`` if it may."""
        if isinstance(address, IPv6Address):
            if address.scope_id is not None:
                return f"{address}: zone ids are not allowed"
            if address.ipv4_mapped is not None:
                address = address.ipv4_mapped
        return self._always_refused(address, port) or self._not_public(address)

    def _always_refused(self, address: Address, port: int | None) -> str | None:
        """Refuse what no setting can allow, also where an IPv6 form embeds it."""
        if address.is_unspecified:  # reaches this very machine: one more name for loopback
            return f"{address}: unspecified"
        for form in (address, *_embedded(address)):
            for network, what in _PLATFORM:
                if form in network:
                    return f"{address}: {what}"
            if (str(form), port) in self._tokens or (
                form.is_loopback and port in self._loopback_tokens
            ):
                return f"{address}: hands out tokens"
        return None

    def _not_public(self, address: Address) -> str | None:
        if any(address in network for network in self._allowed):
            return None
        for network, what in _SPECIAL:
            if address in network:
                return f"{address}: {what}"
        if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
            return f"{address}: reserved"
        return None


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that a gateway may read out of an IPv6 one."""
    if isinstance(address, IPv4Address):
        return ()
    packed = address.packed
    found = []
    if any(address in network for network in _IPV4_LAST):
        found.append(IPv4Address(packed[12:]))
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    if address in _NAT64_LOCAL:
        # RFC 6052, 2.2: prefixes of 48, 56 and 64 bits; those of 96 are in _IPV4_LAST.
        found += [IPv4Address(packed[start:8] + packed[9 : start + 5]) for start in (6, 7, 8)]
    return tuple(found)


def _plain(host: str) -> str:
    return host.lower().strip("[]").removesuffix(".")


def _is_loopback_name(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES
