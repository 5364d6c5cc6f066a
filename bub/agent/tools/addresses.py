"""Which addresses of the internet a tool may connect to: none that leads to this machine or the network it is in."""

from __future__ import annotations

import ipaddress
import re

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOOKS_LIKE_A_NUMBER = r"(.*\.)?([0-9]+|0[xX][0-9a-fA-F]*)\.?"
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_GLOBAL_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # for protocols, tunnels that carry any IPv4 address among them
            "2001:db8::/32",
            "2002::/16",  # 6to4, as above
            "3fff::/20",
        ),
    )
)
_NOT_GLOBAL_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by the customers of a provider
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, where clouds keep the credentials of their machines
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, judged by the IPv4 address that it stands for, if any.

    After the IANA registries of special-purpose addresses. What `ipaddress` calls global differs between the versions
    of Python, and some of them let a few of these pass.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_GLOBAL_V4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _TRANSLATED:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.scope_id is not None:  # an address within a network, whatever its number
        return False
    return address in _GLOBAL_V6 and not any(address in network for network in _NOT_GLOBAL_V6)


def literal(host: str) -> Address | None:
    """Return the address that a host is written as, None for a name.

    Raises ValueError for a number that is no address as people write it: `127.1` and `0x7f000001` are addresses to
    some programs and names to others, and a person who writes one wants to be misunderstood.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        if re.fullmatch(_LOOKS_LIKE_A_NUMBER, host):
            raise
        return None
