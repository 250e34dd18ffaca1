# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the names of a definition a hypervisor lacks, on real files and libvirt's test driver."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_host_names
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import host_names
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse

_DOMAIN = (
    "<domain type='test'><name>{name}</name><memory>8192</memory><os><type>hvm</type></os>"
    "<devices>{devices}</devices></domain>"
)


@pytest.fixture(name="connection")
def _connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(Connection, "local", True)
    with connect("test:///default", 10) as connection:
        yield connection


def _missing(connection: Connection, text: str) -> list[str]:
    named = host_names.of_definition(parse(f"<domain>{text}</domain>", "domain"))
    return [one.partition(";")[0] for one in read_host_names.missing(connection, named)]


def test_files_of_every_kind_are_missing_until_they_exist(
    connection: Connection, tmp_path: Path
) -> None:
    program, folder, device = tmp_path / "qemu", tmp_path / "share", tmp_path / "tpm0"
    text = (
        f"<os><kernel>{tmp_path}/vmlinuz</kernel></os><devices><emulator>{program}</emulator>"
        f"<filesystem><source dir='{folder}'/></filesystem><tpm><backend type='passthrough'><device"
        f" path='{device}'/></backend></tpm><serial type='unix'><source mode='connect'"
        f" path='{tmp_path}/up.sock'/></serial></devices>"
    )
    assert _missing(connection, text) == [
        f"{tmp_path}/vmlinuz of its kernel does not exist",
        f"{program} of its emulator is no program there",
        f"{tmp_path}/up.sock of its serial does not exist",
        f"the folder {folder} of its file system does not exist",
        f"{device} of its TPM does not exist",
    ]
    folder.mkdir()
    for path in (program, device, tmp_path / "vmlinuz", tmp_path / "up.sock"):
        path.write_text("")
    assert _missing(connection, text) == [f"{program} of its emulator is no program there"]
    program.chmod(0o755)
    assert _missing(connection, text) == []


def test_port_that_a_program_listens_on_is_taken(connection: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = f"<devices><graphics type='vnc' autoport='no' port='{port}' listen='@'/></devices>"
        taken = f"port {port} of its vnc console is in use there by another program"
        assert _missing(connection, text.replace("@", "127.0.0.1")) == [taken]
        assert _missing(connection, text.replace("@", "0.0.0.0")) == [taken]  # noqa: S104
        assert taken not in _missing(connection, text.replace("@", "127.0.0.9"))
    assert _missing(connection, text.replace("@", "127.0.0.1")) == []


def test_port_and_vsock_id_of_another_vm_that_runs_are_taken(connection: Connection) -> None:
    devices = (
        "<graphics type='vnc' port='5999' autoport='no' listen='127.0.0.1'/>"
        "<vsock model='virtio'><cid auto='no' address='7'/></vsock>"
    )
    text = f"<devices>{devices}</devices>"
    other = connection.conn.createXML(_DOMAIN.format(name="other", devices=devices), 0)
    try:
        missing = [one for one in _missing(connection, text) if "vhost" not in one]
        assert missing == [
            "port 5999 of its vnc console is 'other''s there, which runs",
            "its vsock ID 7 is 'other''s there, which runs",
        ]
        named = host_names.of_definition(parse(f"<domain>{text}</domain>", "domain"))
        uuid = str(other.UUIDString())
        own = read_host_names.missing(connection, named, uuid=uuid)
        assert [one for one in own if "vhost" not in one] == []
    finally:
        other.destroy()


def test_shared_memory_of_another_vm_is_taken_for_vm_that_moves(connection: Connection) -> None:
    devices = "<shmem name='own' role='master'><model type='ivshmem-plain'/></shmem>"
    other = connection.conn.createXML(_DOMAIN.format(name="other", devices=devices), 0)
    try:
        root = parse(f"<domain><devices>{devices}</devices></domain>", "domain")
        named = host_names.of_definition(root)
        assert read_host_names.missing(connection, named) == []
        (problem,) = read_host_names.missing(connection, named, moving=True)
    finally:
        other.destroy()
    assert problem.startswith("'other', which runs there, has shared memory own too")


def test_secrets_volumes_and_cpus_are_missing(connection: Connection) -> None:
    text = (
        "<devices><disk type='volume'><source pool='default-pool' volume='gone'/></disk>"
        "<disk type='volume'><source pool='nopool' volume='v'/></disk></devices>"
        "<numatune><memory mode='strict' nodeset='0,99'/></numatune><vcpu cpuset='900-901'>1</vcpu>"
    )
    assert _missing(connection, text) == [
        "pool 'default-pool' has no volume 'gone', its disk",
        "there is no pool 'nopool', which has its disk",
        "there is no NUMA node 99, which its memory is bound to",
        "there is none of the CPUs 900-901, which it is pinned to",
    ]


def test_address_of_another_host_is_missing(connection: Connection) -> None:
    text = "<devices><graphics type='vnc' autoport='yes' listen='192.0.2.250'/></devices>"
    (problem,) = _missing(connection, text)
    assert problem == "its hypervisor has no address 192.0.2.250, which the VM listens on"


def test_interfaces_and_devices_of_another_host_are_missing(connection: Connection) -> None:
    text = (
        "<devices><interface type='direct'><source dev='nodev0'/></interface><hostdev"
        " mode='subsystem' type='mdev'><source><address uuid='m1'/></source></hostdev><hostdev"
        " mode='subsystem' type='pci'><source><address domain='0xfff' bus='0' slot='0'"
        " function='0'/></source></hostdev></devices>"
    )
    assert _missing(connection, text) == [
        "there is no interface 'nodev0' on its hypervisor",
        "there is no device mdev m1 on its hypervisor",
        "there is no device 0fff:00:00.0 on its hypervisor",
    ]


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("192.0.2.5", True),
        ("192.0.2.6", False),
        ("2001:DB8:0::5", True),
        ("2001:db8::6", False),
        ("hv1", True),
        ("hv1.example.com", True),
    ],
)
def test_address_that_a_console_listens_on_is_compared_as_an_address(
    address: str, here: bool, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt looks a name up, and writes an address as it was given."""
    own = ["192.0.2.5", "2001:db8::5"]
    monkeypatch.setattr(read_host_names.read_neighbours, "own_addresses", lambda: own)
    text = f"<devices><graphics type='vnc' autoport='yes' listen='{address}'/></devices>"
    found = [one for one in _missing(connection, text) if "has no address" in one]
    assert (found == []) is here
