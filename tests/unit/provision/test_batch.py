# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistake is named by the variable that was written, one mistake to a line."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch

_WRONG = {"vcpus": "many", "memory": "lots"}


class _Templar:
    """No value here is a template."""

    @staticmethod
    def template(value: Any) -> Any:
        return value


def _problems(options: dict[str, Any], values: dict[str, Any]) -> list[str]:
    variables = _batch.Variables(values, _Templar())
    vms = _batch.requested(options, variables)
    with pytest.raises(SpecError) as raised:
        _batch.validated(vms, _batch.defaults(variables), _batch.written_as(options, variables))
    return str(raised.value).splitlines()


def test_whether_to_wait_is_asked_for_all_that_do_not_say_it_themselves() -> None:
    values = {"vm_wait": "false", "vm_memory": 96}
    vms = [{"name": "web1"}, {"name": "web2", "wait": True}, "no VM"]
    variables = _batch.Variables({**values, "virt_vms": vms}, _Templar())
    assert _batch.requested({}, variables) == [
        {"name": "web1", "wait": "false"},
        {"name": "web2", "wait": True},
        "no VM",
    ]


def test_settings_of_one_vm_that_nothing_reads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(_output, "warn", said.append)
    values = {"vm_memory": 96, "vm_vcpus": None, "vm_wait": True, "vm_colour": "red"}
    alone = _batch.Variables(values, _Templar())
    several = _batch.Variables({**values, "vm_cpu": {}, "virt_vms": []}, _Templar())
    _batch.warn_of_ignored({}, alone)
    _batch.warn_of_ignored({"vms": []}, several)
    assert said == []
    _batch.warn_of_ignored({}, several)
    assert said == ["ignored, because virt_vms describes the VMs; set it there: vm_cpu, vm_memory"]


@pytest.mark.parametrize(
    ("options", "values", "names"),
    [
        pytest.param(
            {},
            {"vm_name": "web1", **{f"vm_{name}": value for name, value in _WRONG.items()}},
            ["vm_vcpus", "vm_memory"],
            id="variables of one VM",
        ),
        pytest.param(
            {},
            {"virt_vms": [{"name": "web1"}, {"name": "web2", **_WRONG}]},
            ["virt_vms[1].vcpus", "virt_vms[1].memory"],
            id="the variable of several",
        ),
        pytest.param(
            {"vms": [{"name": "web1", **_WRONG}]},
            {},
            ["vms[0].vcpus", "vms[0].memory"],
            id="the option of a task",
        ),
    ],
)
def test_a_mistake_is_named_as_it_was_written(
    options: dict[str, Any], values: dict[str, Any], names: list[str]
) -> None:
    problems = _problems(options, {"virt_ssh_public_key": "ssh-ed25519 AAAA test", **values})
    assert sorted(line.split(":", 1)[0] for line in problems) == sorted(names), problems


def test_an_unknown_option_of_one_vm_is_named_with_its_other_mistakes() -> None:
    """It was ignored."""
    single, common = _batch.divided({"name": "web1", "memroy": 4, "vcpus": "many", "timeout": 5})
    assert common == {"timeout": 5}
    with pytest.raises(SpecError) as raised:
        _batch.validated([single], _batch.defaults(_batch.Variables({}, _Templar())), "")
    text = str(raised.value)
    assert "memroy: unknown option 'memroy' (did you mean memory?)" in text
    assert "vcpus: 'many' is not a whole number" in text


@pytest.mark.parametrize("given", [{"vms": [{"name": "web1"}]}, {}])
def test_an_unknown_option_beside_a_list_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"unknown option 'pol' \(did you mean pool\?\)"):
        _batch.divided({**given, "pol": "fast"})


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ("ssh-ed25519 A one\n\nssh-ed25519 B two\n", ["ssh-ed25519 A one", "ssh-ed25519 B two"]),
        (["ssh-ed25519 A one"], ["ssh-ed25519 A one"]),
        ([], []),
    ],
)
def test_public_keys_are_text_or_a_list(given: object, keys: list[str]) -> None:
    assert _batch.public_keys("ssh_public_keys", given) == keys


@pytest.mark.parametrize("given", [5, {"key": "ssh-ed25519 A one"}])
def test_public_keys_of_another_type_are_refused(given: object) -> None:
    with pytest.raises(SpecError, match="is neither a public key nor a list"):
        _batch.defaults(_batch.Variables({"virt_ssh_public_key": given}, _Templar()))


def test_image_paths_of_vms_disks_and_profiles_are_collected_as_written() -> None:
    vms = [
        {"name": "a", "image": "/srv/a.qcow2", "disks": '[{"name": "x", "image": "/srv/x.iso"}]'},
        {"name": "b", "image": "b.qcow2", "disks": [{"image": "/srv/a.qcow2"}, "wrong", None]},
        {"name": "c", "image": {"url": "https://example.com/c"}, "disks": "not JSON"},
        {"name": "d", "image": "/srv/\0"},
        "wrong",
    ]
    profiles = {"db": [{"name": "cd", "image": "/srv/db.iso"}], "none": None}
    options = {"vms": vms, "disk_profiles": profiles}
    found = _batch.image_paths(options, _batch.Variables({}, _Templar()))
    assert found == ["/srv/a.qcow2", "/srv/db.iso", "/srv/x.iso"]
    assert _batch.image_paths({}, _batch.Variables({}, _Templar())) == []
    single = _batch.Variables({"vm_name": "a", "vm_image": "/srv/one.qcow2"}, _Templar())
    assert _batch.image_paths({}, single) == ["/srv/one.qcow2"]
