# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals that point at each other: the commands that they print are run as printed, and help.

The domains are defined and never started.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_NAME = "Windows Server 2019"
_COMMAND = r"ansible-playbook fleet\.virt\.{}(?: -e (?:'[^']*'|[^\s;,.)']+))+"
_DEFINE = """
mkdir -p /srv/real
ln -sfn /srv/real /srv/linked
virsh -q pool-define-as linked dir --target /srv/linked
virsh -q pool-start linked
truncate -s 1M /srv/real/windows.img
virsh -q pool-refresh linked
cat > /run/domain.xml
virsh -q define /run/domain.xml
"""
_DOMAIN = """
<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>
 <os><type arch='x86_64' machine='q35'>hvm</type></os><devices>{devices}</devices></domain>
"""
_DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='raw'/>"
    "<source file='/srv/real/windows.img'/><target dev='vda' bus='virtio'/></disk>"
)
# What a request that somebody wrote can hold; the other kinds are a unit test's
_REQUEST = '{"disks":[{"name":"vda","size":Infinity}]}'
_WORDS = "bad: its metadata cannot be used (request: Infinity is not a number)"
_WRITE = """
import libvirt, sys
domain = libvirt.open("qemu:///system").lookupByName("bad")
text = f"<fleet><phase>creating</phase><request>{sys.stdin.read()}</request></fleet>"
domain.setMetadata(2, text, "fleet", "urn:fleet.virt:1", 2)
"""


@pytest.fixture
def host(lab: Laboratory, guests: Guests) -> Iterator[Laboratory]:
    """The laboratory with a pool behind a symbolic link on hv1."""
    for name in ("hv1", "hv2"):
        guests.prepare(name)
    yield lab
    removal = (
        "virsh -q pool-destroy linked; virsh -q pool-undefine linked; rm -rf /srv/real /srv/linked"
    )
    names = "'Windows Server 2019' Windows-Server-2019 bad"
    lab.ssh("hv1", f'for one in {names}; do virsh -q undefine "$one"; done; {removal}', check=False)


def _printed(run: Run, playbook: str) -> list[str]:
    """The words of the command that a refusal prints, which has failed."""
    assert run.returncode != 0, str(run)
    found = re.search(_COMMAND.format(playbook), run.stdout)
    assert found, str(run)
    return shlex.split(found[0])


def test_name_outside_the_rules_is_renamed_adopted_and_purged(
    host: Laboratory, ansible: Ansible
) -> None:
    def typed(words: list[str]) -> Run:
        return ansible.run(words[0], words[1:], limit=120)

    host.ssh("hv1", _DEFINE, input=_DOMAIN.format(name=_NAME, devices=_DISK))
    refused = ansible.playbook("purge_vm", {"vm_name": _NAME})
    adopt = _printed(refused, "adopt")
    rename = _printed(typed(adopt), "rename")
    typed(rename).succeeded()
    new = "Windows-Server-2019"
    refused = ansible.playbook("purge_vm", {"vm_name": new})
    adopted = typed(_printed(refused, "adopt")).succeeded()
    assert "/srv/real/windows.img" in adopted.stdout
    assert "in no active directory pool" not in adopted.stdout
    purged = ansible.playbook("purge_vm", {"vm_name": new}).succeeded()
    assert "/srv/real/windows.img" in purged.stdout
    left = host.ssh("hv1", "virsh -q list --all --name; ls /srv/real").stdout
    assert new not in left
    assert "windows.img" not in left


def test_vm_with_broken_metadata_alone_is_refused_until_mended(
    host: Laboratory, ansible: Ansible
) -> None:
    define = "cat > /run/domain.xml; virsh -q define /run/domain.xml"
    host.ssh("hv1", define, input=_DOMAIN.format(name="bad", devices=""))
    host.ssh("hv1", f"python3 -c {shlex.quote(_WRITE)}", input=_REQUEST)
    other = {"vm_name": "new1", "vm_memory": 64, "vm_start": False, "vm_host": "hv1"}
    made = ansible.playbook("provision_vm", other, check=True).succeeded()
    assert re.search(r"new1 +hv1 .*would be created", made.stdout), str(made)
    listed = ansible.playbook("list").succeeded()
    assert _WORDS in listed.stdout
    refused = ansible.playbook("purge_vm", {"vm_name": "bad"})
    adopt = _printed(refused, "adopt")
    mend = re.search(r"virsh metadata \S+ \S+ --remove --config", refused.stdout)
    assert mend, str(refused)
    host.ssh("hv1", mend[0])
    ansible.run(adopt[0], adopt[1:], limit=120).succeeded()
    ansible.playbook("purge_vm", {"vm_name": "bad"}).succeeded()
