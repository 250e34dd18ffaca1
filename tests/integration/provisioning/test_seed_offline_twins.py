# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two VMs of one image, seeded offline, share no identity, though the image came with all of them.

Only with FLEET_VIRT_TRIALS: every look into a disk takes many seconds where there is no KVM.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet
from .test_seed import metadata

_POOL = "/var/lib/libvirt/images"
_NAMES = ("one", "two")
_MARK = "5ba4ed1de0717751c0e5a7edf00d0001"  # in every file that tells who a guest is
# Written by a guest that ran before its disk became an image
_IDENTITIES = (
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/var/lib/systemd/random-seed",
    "/var/lib/systemd/credential.secret",
    "/var/lib/systemd/network/dhcp-lease",
    "/var/lib/dhcp/dhclient.eth0.leases",
    "/var/lib/dhcp/dhclient6.eth0.leases",
    "/var/lib/dhclient/dhclient--eth0.lease",
    "/var/lib/NetworkManager/internal-5ba4-eth0.lease",
    "/var/lib/NetworkManager/dhclient6-5ba4-eth0.lease",
    "/var/lib/NetworkManager/secret_key",
    "/var/lib/dhcpcd/duid",
    "/var/lib/dhcpcd/secret",
    "/var/lib/dhcpcd/eth0.lease",
    "/var/lib/dhcpcd5/dhcpcd-eth0.lease",
    "/etc/dhcpcd.duid",
    "/var/lib/wicked/duid.xml",
    "/var/lib/wicked/lease-eth0-dhcp-ipv4.xml",
    "/boot/loader/random-seed",
)
# Files of one VM that the other does not have, or has otherwise
_OWN = {
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/etc/systemd/network/05-fleet-virt-eth0.network",
}


def _planted() -> list[str]:
    folders = sorted({path.rpartition("/")[0] for path in _IDENTITIES})
    made = [f"mkdir-p {folder}" for folder in folders]
    return [*made, *(f"write {path} {_MARK}" for path in _IDENTITIES)]


def _files(fleet: Fleet, name: str) -> dict[str, str]:
    """Digests of a disk's files by path."""
    said = offline.guestfish(
        fleet.lab,
        f"--ro -a {_POOL}/{name}_system.qcow2",
        "mount-ro /dev/sda /",
        "debug sh 'cd /sysroot; find . -xdev -type f -exec sha256sum {} +'",
        "debug sh 'grep -rl " + _MARK + " /sysroot || echo none'",
        "cat /etc/systemd/network/05-fleet-virt-eth0.network",
        "readlink /var/lib/dbus/machine-id",
    )
    files, rest = {}, []
    for line in said.splitlines():
        digest, _blank, path = line.partition("  .")
        if len(digest) == 64:
            files[path] = digest
        else:
            rest.append(line)
    assert "none" in rest, rest  # of the image's identities
    assert "/etc/machine-id" in rest
    mac = fleet.host("hv1", f"virsh -q domiflist {name}").split()[-1]
    assert f"MACAddress={mac}" in rest
    assert "ClientIdentifier=mac" in rest
    return files


if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def _prepared(lab: Laboratory) -> Iterator[None]:
        with offline.libguestfs(lab):
            offline.build(lab, {"worn": _planted()}, mib=64)
            yield

    @pytest.mark.usefixtures("_prepared")
    def test_two_of_one_image_share_no_identity(fleet: Fleet) -> None:
        image = f"{offline.FOLDER}/worn.raw"
        common = {"memory": 64, "image": image, "host": "hv1", "start": False}
        vms = [{"name": name, **common, "seed": {"method": "offline"}} for name in _NAMES]
        fleet.provision(virt_vms=vms, limit=600).succeeded()
        one, two = (_files(fleet, name) for name in _NAMES)
        assert {path for path in {*one, *two} if one.get(path) != two.get(path)} == _OWN
        empty = hashlib.sha256(b"").hexdigest()
        assert one["/etc/machine-id"] == two["/etc/machine-id"] == empty  # each makes its own
        gone = {*_IDENTITIES} - {*_OWN, "/etc/machine-id"}
        assert gone & {*one, *two} == set()
        for name, files in zip(_NAMES, (one, two)):
            key = f"{metadata(fleet, 'hv1', name)['host_key']}\n"
            public = files["/etc/ssh/ssh_host_ed25519_key.pub"]
            assert hashlib.sha256(key.encode()).hexdigest() == public
