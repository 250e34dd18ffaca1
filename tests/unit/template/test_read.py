# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a VM that is copied, from libvirt's test driver and real images."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.leftover_rules import (
    DATA_STORE,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_data_files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import read

_DOMAIN = """
<domain type='test'><name>web1</name><memory>131072</memory><os><type>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{path}'/>
<target dev='vda' bus='virtio'/></disk></devices></domain>
"""


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("joined", [False, True])
def test_disk_whose_header_names_its_data_is_named_of_a_copy(joined: bool, tmp_path: Path) -> None:
    """libvirt before 10.10 says nothing of it."""
    path, data = tmp_path / "a.qcow2", tmp_path / "a.data"
    options = ["-o", f"data_file={data}"] if joined else []
    words = ["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), "1M"]
    subprocess.run(words, check=True)
    with connect("test:///default", 30.0) as connection:
        connection.uri = "qemu:///system"  # its files are this machine's, as the test's are
        dom = connection.conn.defineXML(_DOMAIN.format(path=path))
        try:
            root = _lxml.parse(dom.XMLDesc(0), "domain web1")
            (source,) = read.sources(connection, ["web1"], "base")["sources"] or ()
        finally:
            dom.undefine()
        assert read_data_files.of_domain(connection, root) == (
            {str(path): str(data)} if joined else {}
        )
    assert (DATA_STORE in source["left_out"]) is joined
    assert not [one for one in source["refused"] if "dataStore" in one]
