# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The harness catches liars, its snapshot sees every kind of change, and honest modules pass."""

from __future__ import annotations

import hashlib
import re
import textwrap
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.integration import harness, snapshot
from ansible_collections.fleet.virt.tests.integration.support import liars
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_HOST = "hv1"
_FOLDER = "/srv/fleet-virt-harness"

# The judgement of all liars: tests/contract/test_harness_judgement.py. Those here need the rounds
_LIARS = ("changes in check mode", "does it a second time", "fails in check mode")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Ansible looks for modules: one folder, so that one process serves all tests."""
    return tmp_path_factory.mktemp("library")


@pytest.fixture
def folder(lab: Laboratory) -> t.Iterator[str]:
    """An empty folder on the hypervisor."""
    lab.ssh(_HOST, ["rm", "-rf", _FOLDER])
    lab.ssh(_HOST, ["mkdir", _FOLDER])
    yield _FOLDER
    lab.ssh(_HOST, ["rm", "-rf", _FOLDER])


def _written(library: Path, body: str) -> str:
    """The name of a module of that body, which no other has: Ansible packs it once."""
    code = liars.module(body)
    name = f"keep_text_{hashlib.sha256(code.encode()).hexdigest()[:16]}"
    (library / f"{name}.py").write_text(code, encoding="utf-8")
    return name


def _verify(
    ansible: Ansible, lab: Laboratory, library: Path, code: str, folder: str, **options: t.Any
) -> harness.HarnessResult:
    return harness.verify(
        ansible,
        lab,
        _HOST,
        _written(library, code),
        {"path": f"{folder}/file", "text": "wanted"},
        watch=[folder],
        environment={"ANSIBLE_LIBRARY": str(library)},
        **options,
    )


def test_honest_module_passes(
    ansible: Ansible, lab: Laboratory, folder: str, library: Path
) -> None:
    done = _verify(ansible, lab, library, liars.HONEST, folder)
    assert done.predicted[_HOST]["uuid"] == harness.GENERATED
    assert done.real[_HOST]["text"] == "wanted"
    assert [done.real[_HOST]["changed"], done.again[_HOST]["changed"]] == [True, False]
    assert lab.ssh(_HOST, ["cat", f"{folder}/file"]).stdout == "wanted"
    with pytest.raises(harness.Liar, match="expected changed=True"):
        _verify(ansible, lab, library, liars.HONEST, folder)
    _verify(ansible, lab, library, liars.HONEST, folder, expect_changed=False)


@pytest.mark.parametrize("name", _LIARS)
def test_liar_is_caught(
    ansible: Ansible, lab: Laboratory, folder: str, library: Path, name: str
) -> None:
    line, lie, message = liars.LIARS[name]
    with pytest.raises(harness.Liar, match=re.escape(message)):
        _verify(ansible, lab, library, liars.lying(line, lie), folder)


def test_refusal(ansible: Ansible, lab: Laboratory, folder: str, library: Path) -> None:
    def refuse(body: str) -> harness.HarnessResult:
        return harness.refuse(
            ansible,
            lab,
            _HOST,
            _written(library, body),
            {"path": f"{folder}/file", "text": "wanted"},
            match="cannot",
            watch=[folder],
            environment={"ANSIBLE_LIBRARY": str(library)},
        )

    refusing = liars.lying("failed = False", "failed = True")
    untouching = liars.lying("write = changed and not check", "write = False", refusing)
    assert refuse(untouching).real[_HOST]["msg"] == "cannot"
    with pytest.raises(harness.Liar, match="real run was to be refused, but changed"):
        refuse(refusing)


_DOMAIN = """
<domain type='qemu'>
  <name>watched</name>
  <memory unit='MiB'>64</memory>
  <os><type arch='x86_64'>hvm</type></os>
</domain>
"""

# Each changes one thing, in this order; the snapshot must show it where it belongs.
_CHANGES = (
    ("virsh define /tmp/watched.xml", "['domains']['watched'] is new"),
    ("virsh autostart watched", "['domains']['watched']['autostart']: 0 -> 1"),
    ("virsh desc watched --config new", "['domains']['watched']['inactive']"),
    ("virsh start watched --paused", "['domains']['watched']['active']"),
    ("virsh managedsave watched", "['domains']['watched']['managed_save']: 0 -> 1"),
    ("virsh managedsave-remove watched", "['domains']['watched']['managed_save']: 1 -> 0"),
    ("virsh pool-define-as watched dir --target /srv/watched", "['pools']['watched'] is new"),
    ("virsh pool-build watched", "['files']['/srv/watched'] is new"),
    ("virsh pool-start watched", "['pools']['watched']['active']: 0 -> 1"),
    ("virsh pool-autostart watched", "['pools']['watched']['autostart']: 0 -> 1"),
    (
        "virsh vol-create-as watched a.qcow2 1M --format qcow2",
        "['pools']['watched']['volumes']['a.qcow2'] is new",
    ),
    ("virsh vol-resize a.qcow2 2M --pool watched", "['sha256']"),
    ("chmod 640 /srv/watched/a.qcow2", "['mode']: '0600' -> '0640'"),
    ("chown 7:8 /srv/watched/a.qcow2", "['owner']"),
    ("touch /srv/watched/a.qcow2", "['mtime']"),
    ("head -c 9000000 /dev/zero > /srv/watched/by-hand", "['files']['/srv/watched/by-hand']"),
    ("virsh pool-refresh watched", "['pools']['watched']['xml']"),
    ("virsh vol-delete a.qcow2 --pool watched", "['volumes']['a.qcow2'] is gone"),
    ("virsh net-define /tmp/watched-net.xml", "['networks']['watched'] is new"),
    ("virsh net-autostart watched", "['networks']['watched']['autostart']: 0 -> 1"),
    ("ip link add watched0 type bridge", "['links']['watched0'] is new"),
    ("ln -s nowhere /etc/libvirt/watched", "['files']['/etc/libvirt/watched'] is new"),
    ("rm /etc/libvirt/watched", "['files']['/etc/libvirt/watched'] is gone"),
)
_CLEANING = """
virsh destroy watched; virsh undefine --managed-save watched; virsh pool-destroy watched
virsh pool-undefine watched; virsh net-undefine watched; ip link delete watched0
rm -rf /srv/watched /tmp/watched.xml /tmp/watched-net.xml /etc/libvirt/watched
"""


def test_snapshot_sees_every_change(lab: Laboratory) -> None:
    name = "hv2"
    network = "<network><name>watched</name><bridge name='watched1'/></network>"
    lab.ssh(name, ["tee", "/tmp/watched.xml"], input=_DOMAIN)
    lab.ssh(name, ["tee", "/tmp/watched-net.xml"], input=network)
    try:
        before = harness.state_of(lab, name)
        assert snapshot.differences(before, harness.state_of(lab, name)) == []
        missed = []
        for command, expected in _CHANGES:
            lab.ssh(name, command)
            after = harness.state_of(lab, name)
            found = snapshot.differences(before, after)
            if not any(expected in line for line in found):
                missed.append((command, found))
            before = after
        assert missed == []
    finally:
        lab.ssh(name, textwrap.dedent(_CLEANING), check=False)


def test_reading_modules(ansible: Ansible, lab: Laboratory) -> None:
    """Each on another version of libvirt."""
    for module, host in (("fleet.virt.virt_query", "hv1"), ("fleet.virt.virt_host_info", "hv2")):
        done = harness.verify(
            ansible,
            lab,
            host,
            module,
            {},
            expect_changed=False,
            predicted_ignore=["host.memory_mib.free", "host.numa.*.free_mib"],
        )
        assert set(done.real) == {host}


def test_show_writes_a_file(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> None:
    path = tmp_path / "shown"
    done = harness.verify(
        ansible,
        lab,
        "hv1",
        "fleet.virt.virt_show",
        {"view": "list", "results": "read", "output": "json", "output_file": str(path)},
        before=[{"name": "Read", "fleet.virt.virt_query": {}, "register": "read"}],
        task={"run_once": True, "become": False},
        watch_local=[str(tmp_path)],
    )
    (result,) = done.real.values()
    assert path.read_text(encoding="utf-8") == result["output"]
    assert path.stat().st_mode & 0o777 == 0o600
