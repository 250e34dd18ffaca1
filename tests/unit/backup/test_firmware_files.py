# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The UEFI variables of a VM are in its backup, however its definition names their file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_unit,
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse
from ansible_collections.fleet.virt.tests.unit.backup.test_other_work import _order

_DEFINITION = """
<domain type='test'><name>web1</name><memory>1024</memory>
 <os><type>hvm</type><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
 {}</os></domain>
"""
_FORMS = {
    "text": "<nvram>{}</nvram>",
    "source": "<nvram type='file'><source file='{}'/></nvram>",
}


@pytest.mark.parametrize("form", _FORMS.values(), ids=_FORMS)
def test_firmware_variables_are_saved(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = tmp_path / "web1_VARS.fd"
    variables.write_bytes(b"variables")
    folder = tmp_path / "backup"
    folder.mkdir()
    monkeypatch.setattr(read, "folder", lambda _uuid: folder)
    with connect("test:///default", 10) as connection:
        dom = connection.conn.defineXML(_DEFINITION.format(form.format(variables)))
        order = dataclasses.replace(_order(active=False), name="web1", uuid=dom.UUIDString())
        try:
            effects_unit._Backup(order)._copy_files(connection, dom)
        finally:
            dom.undefine()
    assert (folder / archives.NVRAM).read_bytes() == b"variables"


def test_firmware_variables_elsewhere_are_refused() -> None:
    form = "<nvram type='network'><source protocol='nbd' name='v'/></nvram>"
    (said,) = read._firmware(parse(_DEFINITION.format(form), "web1"), "web1")
    assert said == "the UEFI variables of 'web1' are of type network; those in files can be saved"
    assert not read._firmware(parse(_DEFINITION.format(_FORMS["source"]), "web1"), "web1")
