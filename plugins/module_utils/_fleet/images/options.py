# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The limits for fetching an image, and the hypervisors it is requested from."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..._units import MIB, parse_mib
from ..base import ip
from ..base.options import show

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

# Zeros take hardly any space in a compressed file and none on disk, but they all take time
MAX_UNPACKED = "256GiB"
DOWNLOAD_TIMEOUT = 30.0
# What the controller knows about its own file, as suboptions of _source
SOURCE: Spec = {
    "name": {"type": "str", "required": True},
    "digest": {"type": "str", "required": True},
    "format": {"type": "str", "required": True, "choices": ["qcow2", "raw"]},
    "virtual_bytes": {"type": "int", "required": True},
    "received": {"type": "path"},
    "volume": {"type": "str"},
}
INTERNAL: Spec = {
    "_source": {"type": "dict", "options": SOURCE},
    "_sole_pool_ids": {"type": "list", "elements": "str", "default": []},
}
# Only the pools' ids are read: they are known even if images are unreadable
INFO_INTERNAL: Spec = {"_pools": {"type": "bool", "default": False}}
# Nothing that would add to a URI more than its address: no_verify, pkipath, another user
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Limits:
    """``seconds`` without progress end a download; at most ``unpacked`` bytes are unpacked."""

    seconds: float = DOWNLOAD_TIMEOUT
    unpacked: int = parse_mib(MAX_UNPACKED) * MIB


def limits_of(options: t.Mapping[str, object]) -> Limits:
    """The limits that the options ``download_timeout`` and ``max_unpacked`` set."""
    try:
        unpacked = parse_mib(options.get("max_unpacked") or MAX_UNPACKED)
    except ValueError as error:
        raise PlanRefused(f"max_unpacked: {error}") from None
    given = options.get("download_timeout")
    seconds = DOWNLOAD_TIMEOUT if given is None else 0.0
    with contextlib.suppress(ValueError):
        seconds = float(given) if isinstance(given, (int, float, str)) else seconds
    if not 0 < seconds <= 3600:
        raise PlanRefused(
            f"download_timeout: {given!r} is not a time limit; give a number of seconds above 0,"
            " at most 3600"
        )
    return Limits(seconds, unpacked * MIB)


def not_queried(reason: str) -> str:
    """The step that says why no other hypervisor was asked for the image."""
    return f"other hypervisors were not queried: {reason}"


def peer_uris(peers: t.Sequence[str]) -> dict[str, str]:
    """The URI of libvirt's verified TLS for each of these hypervisors, in their order."""
    return {peer: f"qemu+tls://{_host(peer)}/system" for peer in peers}


def _host(peer: str) -> str:
    try:
        address = ip.address(peer)
        if address.version == 6:
            return f"[{address}]"
    except ValueError:
        pass
    if not _NAME.fullmatch(peer):
        raise PlanRefused(
            f"peers: {show(peer)} is not the address of a hypervisor; write its name or IP address,"
            " without a port"
        )
    return peer
