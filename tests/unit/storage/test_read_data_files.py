# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks whose data are in another file, as libvirt and qemu-img write them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    data_files,
    read_data_files,
)

needs_qemu_img = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="qemu-img is not installed"
)
STORE = "<dataStore type='file'><format type='raw'/><source file='/pool/a.data'/></dataStore>"


def create(folder: Path, *words: str) -> None:
    subprocess.run(["qemu-img", *words], cwd=folder, check=True, capture_output=True)


def disk_of(path: Path, inner: str = "", kind: str = "qcow2") -> _lxml.Element:
    text = f"<disk type='file'><driver type='{kind}'/><source file='{path}'>{inner}</source></disk>"
    return _lxml.parse(text, "disk")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (f"<disk><source file='/pool/a'>{STORE}</source></disk>", "/pool/a.data"),
        (
            "<disk><source file='/pool/b'/><backingStore type='file'><source file='/pool/a'>"
            f"{STORE}</source></backingStore></disk>",
            "/pool/a.data",
        ),
        (
            "<disk><source file='/a'><dataStore type='block'><source dev='/dev/v/a'/></dataStore>"
            "</source></disk>",
            "/dev/v/a",
        ),
        ("<disk><source file='/pool/a'/></disk>", None),
    ],
)
def test_data_file_that_libvirt_knows_is_named(text: str, data: str | None) -> None:
    assert data_files.named_in(_lxml.parse(text, "disk")) == data


@needs_qemu_img
def test_data_file_that_only_the_header_names_is_read(tmp_path: Path) -> None:
    create(tmp_path, "create", "-f", "qcow2", "-o", f"data_file={tmp_path}/a.data", "a.qcow2", "1M")
    create(tmp_path, *["create", "-f", "qcow2", "-b", "a.qcow2", "-F", "qcow2", "top.qcow2"])
    create(tmp_path, *["create", "-f", "qcow2", "plain.qcow2", "1M"])
    create(tmp_path, *["create", "-f", "qcow2", "-b", "plain.qcow2", "-F", "qcow2", "over.qcow2"])
    found = {
        name: read_data_files.in_chain(str(tmp_path / name))
        for name in ("a.qcow2", "top.qcow2", "plain.qcow2", "over.qcow2", "absent.qcow2", "a.data")
    }
    data = str(tmp_path / "a.data")
    assert {name for name, one in found.items() if one is not None} == {"a.qcow2", "top.qcow2"}
    assert {found["a.qcow2"], found["top.qcow2"]} == {data}


@needs_qemu_img
def test_header_is_read_of_what_qemu_reads_it_of(tmp_path: Path) -> None:
    create(tmp_path, "create", "-f", "qcow2", "-o", f"data_file={tmp_path}/a.data", "a.qcow2", "1M")
    path = tmp_path / "a.qcow2"
    with connect("test:///default", 10) as connection:
        connection.uri = "qemu:///system"  # its files are this machine's, as the test's are
        asked = {
            kind: read_data_files.find(connection, disk_of(path, kind=kind), str(path))
            for kind in ("qcow2", "raw")
        }
        named = read_data_files.find(connection, disk_of(path, STORE), str(path))
    # a guest may write any header into its raw disk
    assert asked == {"qcow2": str(tmp_path / "a.data"), "raw": None}
    assert named == "/pool/a.data"


@needs_qemu_img
def test_remedy_makes_a_single_file(tmp_path: Path) -> None:
    create(tmp_path, "create", "-f", "qcow2", "-o", f"data_file={tmp_path}/a.data", "a.qcow2", "1M")
    path = tmp_path / "a.qcow2"
    create(tmp_path, "bench", "-w", "-c", "1", "-s", "65536", "--pattern=7", "a.qcow2")
    create(tmp_path, "convert", "-O", "raw", "a.qcow2", "before")
    data = read_data_files.in_chain(str(path))
    assert data is not None
    refusal = data_files.refusal("disk vda", str(path), data, "web1")
    command = refusal.partition("is off: ")[2].partition(", then")[0]
    subprocess.run(["sh", "-c", command], check=True)
    (tmp_path / "a.data").unlink()
    assert read_data_files.in_chain(str(path)) is None
    create(tmp_path, "convert", "-O", "raw", "a.qcow2", "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()
    assert (tmp_path / "after").read_bytes().strip(b"\0")
