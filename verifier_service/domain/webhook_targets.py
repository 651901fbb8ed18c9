"""Which URLs and addresses webhooks may go to. Pure: resolving names is for the sender.

Only global unicast addresses are let through. The ranges are those of the IANA registries of
special-purpose addresses (https://www.iana.org/assignments/iana-ipv4-special-registry and
…/iana-ipv6-special-registry), written out so that they do not depend on the version of Python. IPv6
addresses that carry an IPv4 one (mapped, NAT64, 6to4, Teredo) are refused whatever they carry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias
from urllib.parse import urlsplit

from verifier_service.domain.errors import InvalidInput
from verifier_service.domain.webhooks import MAX_URL_CHARS

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network

FIELD = "url"
DEFAULT_PORTS = {"https": 443, "http": 80}
HTTPS_PORTS = (443, 8_443)
HTTP_PORTS = (80, 8_080)
MAX_PORT = 65_535
MAX_HOST_CHARS = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_TARGET = re.compile(r"[!$&'()*+,./0-9:;=?@A-Z_a-z~%-]*", re.ASCII)
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:@%\\]+)(:(?P<port>[0-9]{1,5}))?", re.ASCII)

_BLOCKED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the host agent of Azure machines
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in the parts that a request is made of: nothing parses it a second time."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Guard:
    """``plain_http`` lets http through, ``ports`` are those of the world; ``networks`` and ``hosts`` are an
    operator's own receivers, which may be internal and listen anywhere."""

    plain_http: bool = False
    ports: frozenset[int] = frozenset(HTTPS_PORTS)
    networks: tuple[IPNetwork, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *, plain_http: bool, ports: Iterable[int] | None, allow: Iterable[str]) -> Guard:
        """``allow`` holds addresses, networks and host names. Raises ``ValueError`` for anything else."""
        if ports is None:
            ports = (*HTTPS_PORTS, *HTTP_PORTS) if plain_http else HTTPS_PORTS
        networks, hosts = [], set()
        for entry in allow:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                name = entry.lower()
                if not _is_name(name):
                    raise ValueError(f"{entry!r} is no address, network or host name") from None
                hosts.add(name)
        return cls(plain_http, frozenset(ports), tuple(networks), frozenset(hosts))

    def target(self, url: str) -> Target:
        """The parts of a URL that may be sent to, as far as its text tells. Raises ``InvalidInput``."""
        if len(url) > MAX_URL_CHARS:
            raise _refused("url_too_long", f"a URL has at most {MAX_URL_CHARS} characters")
        if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
            raise _refused("bad_url", "a URL is ASCII without spaces, control characters and backslashes")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise _refused("bad_url", "this is not a URL") from error
        scheme = parts.scheme
        if scheme not in DEFAULT_PORTS or (scheme == "http" and not self.plain_http):
            raise _refused(
                "url_scheme", "only https URLs are sent to" if not self.plain_http else "http(s)"
            )
        if "@" in parts.netloc:
            raise _refused("url_credentials", "a URL here holds no user name or password")
        if parts.fragment or "#" in url:
            raise _refused("bad_url", "a URL here has no fragment")
        found = _AUTHORITY.fullmatch(parts.netloc)
        if found is None:
            raise _refused("url_host", "this is not a host")
        port = int(found["port"]) if found["port"] is not None else DEFAULT_PORTS[scheme]
        if not 0 < port <= MAX_PORT:
            raise _refused("url_port", "this is not a port")
        path = parts.path or "/"
        path = f"{path}?{parts.query}" if parts.query else path
        if not path.startswith("/") or not _TARGET.fullmatch(path):
            raise _refused("bad_url", "the path holds characters that are written with a percent sign")
        return Target(scheme, self._host(found["host"].lower()), port, path)

    @property
    def _schemes(self) -> str:
        return "http and https" if self.plain_http else "https"

    def _host(self, host: str) -> str:
        """An address in its one spelling, or a name that nothing takes for an address."""
        if host.startswith("["):
            try:
                return str(IPv6Address(host[1:-1]))
            except AddressValueError as error:
                raise _refused("url_host", "this is not an IPv6 address") from error
        if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            try:
                return str(IPv4Address(host))
            except AddressValueError as error:
                raise _refused("url_host", "an IPv4 address is four decimal numbers") from error
        if host in self.hosts:
            return host
        if not _is_name(host) or "." not in host:
            raise _refused(
                "url_host", "a host is an address or a full domain name without a dot at its end"
            )
        return host

    def require(self, host: str, port: int, addresses: Iterable[str]) -> list[IPAddress]:
        """The addresses of a host, each of which may be connected to. Raises ``InvalidInput`` when one may
        not: a name with public and internal addresses is not half good."""
        found = [ip_address(text) for text in dict.fromkeys(addresses)]
        if not found:
            raise _refused("url_unresolvable", f"{host} has no address")
        if host not in self.hosts:
            for address in found:
                self._require(host, port, address)
        return found

    def _require(self, host: str, port: int, address: IPAddress) -> None:
        if any(address in network for network in self.networks):
            return
        if not is_public(address):
            raise _refused("blocked_address", f"{host} is at an address that is not public")
        if port not in self.ports:
            ports = ", ".join(map(str, sorted(self.ports)))
            raise _refused("url_port", f"port {port} is not among those that are sent to: {ports}")


def is_public(address: IPAddress) -> bool:
    """Whether an address is one of the public internet, and nothing is hidden in it."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _BLOCKED_V4)
    if address.scope_id is not None or address not in _GLOBAL_V6:
        return False
    return not any(address in network for network in _BLOCKED_V6)


def _is_name(host: str) -> bool:
    return len(host) <= MAX_HOST_CHARS and all(_LABEL.fullmatch(label) for label in host.split("."))


def _refused(code: str, message: str) -> InvalidInput:
    return InvalidInput(code, message, field=FIELD)
