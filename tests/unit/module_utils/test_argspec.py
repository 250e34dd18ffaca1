# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame of all modules: internal options are nobody's to see, least of all secret ones."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils import basic
from ansible_collections.fleet.virt.plugins.module_utils._argspec import (
    FleetModule,
    create_module,
    run,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_caller as caller
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_syslog as syslog,
)

_INTERNAL = {
    "_hidden": {"type": "str", "no_log": True},
    "_number": {"type": "int", "default": 3},
}


def _module(monkeypatch: pytest.MonkeyPatch, **given: object) -> FleetModule:
    for name in ("host", "person", "is_module"):  # a module is a process of its own elsewhere
        monkeypatch.setattr(caller._state, name, getattr(caller._state, name))
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", arguments)
    # what ansible-core from 2.19 on asks for besides
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    return create_module({"name": {"type": "str"}}, _INTERNAL)


def test_internal_options_have_their_types_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(monkeypatch, name="web1", _hidden="HUSH")
    assert module.options["name"] == "web1"
    assert (module.options["_hidden"], module.options["_number"]) == ("HUSH", 3)
    assert module.options["timeout"] == 10.0
    assert "_number" not in module.params


def test_what_an_internal_option_hides_is_in_no_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = _module(monkeypatch, name="web1", _hidden="HUSH")
    with pytest.raises(SystemExit):
        module.exit_json(said="hidden is HUSH", name="web1")
    printed = capsys.readouterr().out
    assert "HUSH" not in printed
    assert json.loads(printed)["name"] == "web1"
    with pytest.raises(SystemExit):
        module.fail_json(msg="refused: HUSH")
    printed = capsys.readouterr().out
    assert "HUSH" not in printed
    assert json.loads(printed)["msg"].startswith("refused: ")


def test_one_of_another_type_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _module(monkeypatch, _number="many")
    failed = json.loads(capsys.readouterr().out)
    assert failed["failed"]
    assert "_number" in failed["msg"]


@pytest.mark.parametrize("check", [False, True])
def test_journal_names_the_person_and_hides_what_output_hides(
    monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(syslog, "write", lines.extend)
    vms = [{"name": "web1", "changed": True, "failed": True, "msg": "refused: HUSH"}]
    module = _module(
        monkeypatch, _hidden="HUSH", _host="hv1", _person="al\nice", _ansible_check_mode=check
    )
    with pytest.raises(SystemExit):
        run(module, lambda: {"changed": True, "failed": True, "vms": vms}, needs_libvirt=False)
    if check:
        assert lines == []
        return
    (line,) = lines
    assert "HUSH" not in line
    assert "\n" not in line
    written = json.loads(line)
    assert (written["person"], written["host"], written["vm"]) == ("al\nice", "hv1", "web1")
    assert written["outcome"] == "failed"
