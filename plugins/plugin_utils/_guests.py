# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain as the variables of an inventory host.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t


def variables(hypervisor: str, domain: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Variables of the guest; ``ansible_host`` only where an address is known.

    The first IPv4 address goes first: it is what a network without router advertisements has.
    """
    addresses = [address for nic in domain["nics"] for address in nic["addresses"]]
    addresses.sort(key=lambda address: ":" in address)
    values = {
        "virt_hypervisor": hypervisor,
        "virt_uuid": domain["uuid"],
        "virt_state": domain["state"],
        "virt_vcpus": domain["vcpus"],
        "virt_memory_mib": domain["memory_mib"],
        "virt_title": domain["title"],
        "virt_metadata": domain["metadata"],
        "virt_addresses": addresses,
        "virt_error": domain["error"],
    }
    user = domain["metadata"]["user"]
    if user is not None:
        values["ansible_user"] = user
    if addresses:
        values["ansible_host"] = addresses[0]
    return values
