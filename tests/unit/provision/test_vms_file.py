# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of VMs that were adopted: text stays text, and nothing that is there is lost."""

from __future__ import annotations

import inspect
import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _vms_file

_WEB: dict[str, t.Any] = {
    "name": "web1",
    "title": "{{ lookup('pipe', 'id') }}",
    "description": "a: b\n# c {% if %}",
    "nics": [{"name": "eth0", "mac": "52:54:00:12:34:56"}, {"mac": "52:54:00:00:00:01"}],
    "link": False,
}


def test_ansible_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "vms.yml"
    path.write_text(_vms_file.render([_WEB]), encoding="utf-8")
    assert _loaded(path) == [_WEB]
    plain = _vms_file.render([{"title": "{{ 6 * 7 }}"}]).replace("!unsafe ", "")
    path.write_text(plain, encoding="utf-8")
    # so the mark is what keeps it; ansible-core before 2.19 makes text of a number
    assert _loaded(path) in ([{"title": 42}], [{"title": "42"}])


def _loaded(path: Path) -> object:
    """The VMs as an action has them of a file of extra variables."""
    loader = DataLoader()
    trusted = "trusted_as_template" in inspect.signature(loader.load_from_file).parameters
    more = {"trusted_as_template": True} if trusted else {}
    values = loader.load_from_file(str(path), **more)
    return Templar(loader=loader, variables=values).template(values["virt_vms"])


def test_nothing_that_is_there_is_lost(tmp_path: Path) -> None:
    path, other = tmp_path / "vms.yml", {"name": "db1"}
    _vms_file.require_nothing_lost(str(path), [_WEB])
    path.write_text(_vms_file.render([_WEB]), encoding="utf-8")
    _vms_file.require_nothing_lost(str(path), [_WEB])
    _vms_file.require_nothing_lost(str(path), [other, _WEB])
    before = path.read_text(encoding="utf-8")
    for text in (
        before.replace("web1", "web2"),
        before + "mine: 1\n",
        before + "# a note\n",
        "virt_vms: [",
        "something else",
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PlanRefused, match="has content that would be lost"):
            _vms_file.require_nothing_lost(str(path), [other, _WEB])
