# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What definitions and images name, compared with what qemu-img writes."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.file_references import (
    Below,
    of_definition,
    of_image,
)

DOMAIN = """
<domain type='kvm'>
  <name>web1</name>
  <metadata><f:fleet xmlns:f='urn:fleet.virt:1'>
    <f:volume pool='default' name='kept.qcow2' path='/pool/kept.qcow2' target='a' role='disk'/>
  </f:fleet></metadata>
  <os><type>hvm</type><loader type='pflash'>/fw/code.fd</loader><nvram>/nvram/web1.fd</nvram>
    <kernel>/boot/vmlinuz</kernel></os>
  <devices>
    <disk type='file' device='disk'><driver type='qcow2'/><source file='/pool/web1.qcow2'/>
      <backingStore type='file'><format type='raw'/><source file='/base/b.qcow2'/>
        <backingStore type='block'><source dev='/dev/vg/base'/></backingStore></backingStore>
      <mirror type='file'><source file='/pool/copy.qcow2'/></mirror></disk>
    <disk type='volume'><driver type='raw'/><source pool='fast' volume='data.qcow2'/></disk>
    <disk type='network'><source protocol='nbd' name='export'/></disk>
    <serial type='pty'><log file='/log/web1.log'/></serial>
  </devices>
</domain>
"""


def test_a_domain_names() -> None:
    named = of_definition(_lxml.parse(DOMAIN, "domain"))
    assert named.paths == {
        "/pool/kept.qcow2",
        "/fw/code.fd",
        "/nvram/web1.fd",
        "/boot/vmlinuz",
        "/pool/web1.qcow2",
        "/base/b.qcow2",
        "/dev/vg/base",
        "/pool/copy.qcow2",
        "/log/web1.log",
    }
    assert named.volumes == {("fast", "data.qcow2"), ("default", "kept.qcow2")}
    assert named.formats == {
        ("/pool/web1.qcow2", "qcow2"),
        ("/base/b.qcow2", "raw"),
        ("/dev/vg/base", None),
        ("/pool/copy.qcow2", None),
    }
    assert named.volume_formats == {(("fast", "data.qcow2"), "raw")}


def names(content: bytes) -> list[str]:
    def read(offset: int, length: int) -> bytes:
        file = io.BytesIO(content)
        file.seek(offset)
        return file.read(length)

    return [one.name for one in of_image(read)]


def qcow2(name: bytes, *, version: int = 3, offset: int = 5000) -> bytes:
    head = struct.pack(">4sIQI", b"QFI\xfb", version, offset, len(name))
    return head.ljust(100, b"\0").ljust(offset, b"\0") + name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"/base/b.qcow2", ["/base/b.qcow2"]),
        (b"b.qcow2", ["b.qcow2"]),
        (b"../base/b c.qcow2", ["../base/b c.qcow2"]),
        (b"file:/base/b.qcow2", ["/base/b.qcow2"]),
        (b"file:b.qcow2", ["b.qcow2"]),
        (b"nbd://host/export", []),
        (b"https://host/b.qcow2", []),
        (b'json:{"driver":"qcow2","file":{"driver":"file","filename":"/b"}}', ["/b"]),
        (b'json:{"file.filename":"/b","backing":{"file.filename":"/c"}}', ["/b", "/c"]),
        (b'json:{"driver":"raw","file":"node0","backing":"/d"}', ["node0", "/d"]),
        (b"json:{broken", []),
        (b"", []),
        (b"/b\xff.qcow2", ["/b\udcff.qcow2"]),
        # what cannot be the name of a file
        (b"/b\0c.qcow2", []),
        (b"/b\nc.qcow2", []),
        (b"/" + b"x" * 4095, []),
        (b"/" + "\u00e4".encode() * 2047, ["/" + "\u00e4" * 2047]),
        (b'json:{"file.filename":"/\\ud800","backing":"/c"}', ["/c"]),
        (b"/" + b"x" * 4094, ["/" + "x" * 4094]),
        (b'json:{"file.filename":"/b\\u0000","backing":"/c"}', ["/c"]),
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_backing_file_however_it_is_written(
    name: bytes, expected: list[str], version: int
) -> None:
    assert names(qcow2(name, version=version)) == expected


def test_broken_headers_name_nothing() -> None:
    for content in (b"", b"QFI\xfb", b"QED\0", b"QFI\xfb" + b"\xff" * 200, b"QED\0" + b"\xff" * 99):
        assert names(content) == []
    endless = qcow2(b"")[:100] + struct.pack(">I", 104) + struct.pack(">II", 7, 0) * 500
    assert names(endless) == []
    deep = b"json:" + b'{"file":' * 20000
    assert names(qcow2(deep[:4000])) == []


def test_raw_content_names_nothing() -> None:
    assert names(b"/base/b.qcow2" * 1000) == []


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("image_format", ["qcow2", "qed", "vmdk", "qcow"])
def test_what_qemu_writes(image_format: str, tmp_path: Path) -> None:
    def qemu_img(*words: str) -> str:
        done = subprocess.run(
            ["qemu-img", *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout

    kind = "vmdk" if image_format == "vmdk" else "raw"
    qemu_img("create", "-f", kind, "base.img", "1M")
    qemu_img("create", "-f", image_format, "-b", "base.img", "-F", kind, "top.img")
    info = json.loads(qemu_img("info", "--output=json", "top.img"))
    assert info["backing-filename"] == "base.img"
    assert "base.img" in names((tmp_path / "top.img").read_bytes())
    if kind == "raw":
        assert names((tmp_path / "base.img").read_bytes()) == []


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("compat", ["0.10", "1.1"])
@pytest.mark.parametrize("kind", ["raw", "qcow2"])
def test_the_format_of_the_backing_file(compat: str, kind: str, tmp_path: Path) -> None:
    options = ["-f", "qcow2", "-o", f"compat={compat}", "-b", "base.img", "-F", kind]
    for words in (["-f", kind, "base.img", "1M"], [*options, "top.img", "1M"]):
        subprocess.run(["qemu-img", "create", "-q", *words], cwd=tmp_path, check=True)
    file = io.BytesIO((tmp_path / "top.img").read_bytes())

    def read(offset: int, length: int) -> bytes:
        file.seek(offset)
        return file.read(length)

    assert of_image(read) == [Below("base.img", kind)]


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
def test_an_external_data_file(tmp_path: Path) -> None:
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file=data.raw", "top.img", "1M"],
        cwd=tmp_path,
        check=True,
    )
    assert names((tmp_path / "top.img").read_bytes()) == ["data.raw"]
