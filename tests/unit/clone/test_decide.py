# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM is copied, and what the copy is asked for with."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.clone import decide as clone
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.leftover_rules import (
    DATA_STORE,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)

_TOKEN = "01234567"  # noqa: S105
_DIGEST = "a" * 64
_VALUE = f"base/{_DIGEST}-web1-copy-{_TOKEN}.qcow2"
_SPEC = {
    "name": "web1",
    "vcpus": 2,
    "memory": 512,
    "start": False,
    "autostart": True,
    "disk_profile": "none",
    "nic_profile": "none",
    "disks": [
        {"name": "vda", "size": 64, "format": "raw", "serial": "A1"},
        {"name": "sda", "device": "cdrom", "bus": "scsi"},
    ],
    "nics": [{"name": "eth0", "bridge": "br0", "mac": "52:54:00:00:00:01"}],
    "console": {"type": "vnc", "port": 5901},
}
_COPIED = {
    "hv1": {
        "vms": [{"name": "web1", "changed": True, "failed": False, "msg": None}],
        "images": [
            {
                "target": "vda",
                "name": "web1-copy-01234567",
                "digest": _DIGEST,
                "format": "qcow2",
                "pool": "base",
                "volume": _VALUE.partition("/")[2],
                "size_mib": 64,
            }
        ],
    }
}


def _source(name: str, **more: t.Any) -> dict[str, t.Any]:
    found = {"name": name, "phase": None, "specification": {**_SPEC, "name": name}}
    found.update(carried=None, refused=[], left_out=[], clone_of=None)
    return {**found, "problems": [], "request": {"seed": {"user": "ops", "method": "auto"}}, **more}


def _fleet(*sources: dict[str, t.Any], alone: str = "", silent: bool = False) -> clone.Fleet:
    answer = {
        "defined": [{"name": one["name"], "uuid": "1", "phase": one["phase"]} for one in sources],
        "sources": list(sources),
        "alone": alone,
    }
    other = {"msg": "no route"} if silent else {"defined": [], "sources": [], "alone": ""}
    return located.sort({"hv1": answer, "hv2": other}, "defined", None, [])


def _copy_of(value: str = _VALUE, overlay: bool = True, **more: t.Any) -> dict[str, t.Any]:
    disk = {"name": "vda", "image": {"kind": "volume", "value": value}, "overlay": overlay}
    return _source("web2", **{"request": {"disks": [disk]}, "clone_of": "web1", **more})


def _wanted(seen: clone.Fleet, mode: str | None = None, **overrides: t.Any) -> clone.CloneRequest:
    decision = clone.decide("web2", "web1", mode, seen, _TOKEN, overrides)
    again = clone.decision_of(decision.as_dict())
    assert again.as_dict() == decision.as_dict()
    return clone.wanted("web2", "web1", again, seen, _COPIED, overrides)


def test_a_copy_has_nothing_that_makes_its_source() -> None:
    found = _wanted(_fleet(_source("web1")), memory="1GiB")
    (vm,) = found.vms
    assert vm["seed"] == {"user": "ops", "method": "auto"}
    domain, problems = from_options({**vm, "seed": False}, defaults=Defaults(fleet="f"))
    assert not problems
    assert domain is not None
    assert (domain.name, domain.memory, domain.start, domain.autostart) == (
        *("web2", 1024),
        *(True, False),
    )
    assert domain.nics[0].mac != "52:54:00:00:00:01"
    assert (domain.console.type, domain.console.port) == ("vnc", None)
    disk = domain.disks[0]
    assert disk.image is not None
    assert (disk.image.value, disk.overlay, disk.format) == (_VALUE, True, "qcow2")
    assert domain.disks[1].image is None
    assert found.images == {
        _VALUE: {
            "name": "web1-copy-01234567",
            "digest": _DIGEST,
            "format": "qcow2",
            "virtual_bytes": 64 << 20,
        }
    }
    assert found.intermediate == []


def test_copy_gets_what_its_source_has_beside_its_settings() -> None:
    seen = _fleet(_source("web1", carried="<domain><pm/></domain>"))
    found = _wanted(seen, memory=1024)
    assert found.leftovers == {"carried": "<domain><pm/></domain>", "requested": ["memory"]}
    assert _wanted(_fleet(_source("web1"))).leftovers == {}
    begun = _fleet(_source("web1", carried="<domain><pm/></domain>"), _copy_of(phase="creating"))
    assert _wanted(begun).leftovers
    there = _fleet(_source("web1", refused=["devices/shmem"]), _copy_of(carried="<domain/>"))
    assert _wanted(there).leftovers == {}  # it has its definition


_SERIAL = {"type": "unix", "path": "/run/a", "mode": "bind"}


def test_what_a_copy_cannot_have_is_refused_with_what_to_request_instead() -> None:
    refused = ["devices/shmem", "devices/interface[@type='ethernet']"]
    spec = {**_SPEC, "name": "web1", "serials": [_SERIAL, {"type": "pty"}]}
    seen = _fleet(_source("web1", refused=refused, specification=spec))
    with pytest.raises(PlanRefused) as caught:
        _wanted(seen)
    assert str(caught.value) == (
        "'web1' on hv1 cannot be copied: the copy would lack devices/shmem,"
        " devices/interface[@type='ethernet'], devices/serial[@type='unix'] of its definition,"
        " which two VMs cannot share, or which is not known here; remove that from it (virsh edit"
        " web1), or request the copy's own with vm_nics and vm_serials"
    )
    with pytest.raises(PlanRefused, match=r"would lack devices/shmem of .*edit web1\)$"):
        _wanted(seen, nics=[], serials=[])
    with pytest.raises(PlanRefused, match="devices/shmem"):
        _wanted(_fleet(_source("web1", refused=refused), _copy_of(phase="creating")))


def test_what_a_copy_is_made_without_is_named_unless_its_own_is_requested() -> None:
    address = "devices/interface[@type='bridge']/filterref/parameter[@name='IP']"
    serial = "sysinfo/system/entry[@name='serial']"
    seen = _fleet(_source("web1", left_out=[address, serial]))
    decided = clone.decide("web2", "web1", None, seen, "0")
    (warning,) = clone.left_out("web1", decided, seen, ())
    assert f"the copy of 'web1' lacks {address}, {serial}, which identify it" in warning
    (warning,) = clone.left_out("web1", decided, seen, ("nics",))
    assert (address in warning, serial in warning) == (False, True)
    assert clone.left_out("web1", dataclasses.replace(decided, state="there"), seen, ()) == []


@pytest.mark.parametrize("more", [{"refused": ["devices/shmem"]}, {"specification": None}])
def test_source_that_another_run_changes_is_not_to_be_mended(more: dict[str, t.Any]) -> None:
    with pytest.raises(PlanRefused, match="'web1' is in phase creating: another run") as caught:
        _wanted(_fleet(_source("web1", phase="creating", **more)))
    assert "virsh" not in str(caught.value)
    # of one whose metadata are broken, that is said
    broken = _source("web1", phase="unreadable", specification=None, problems=["its metadata"])
    with pytest.raises(PlanRefused, match="its metadata"):
        _wanted(_fleet(broken))


def test_a_full_copy_keeps_the_format_and_no_image() -> None:
    found = _wanted(_fleet(_source("web1", request={"seed": None})), "full")
    domain, problems = from_options(found.vms[0], defaults=Defaults())
    assert not problems
    assert domain is not None
    assert (domain.disks[0].overlay, domain.disks[0].format) == (False, "raw")
    assert found.intermediate == [_VALUE.partition("/")[2]]


def test_an_image_with_the_same_content_that_is_somebodys_stays() -> None:
    golden = {**_COPIED["hv1"]["images"][0], "volume": f"{_DIGEST}-golden.qcow2"}
    copied = {"hv1": {**_COPIED["hv1"], "images": [golden]}}
    seen = _fleet(_source("web1"))
    decision = clone.decide("web2", "web1", "full", seen, _TOKEN)
    assert clone.wanted("web2", "web1", decision, seen, copied, {}).intermediate == []
    there = _fleet(_copy_of(f"base/{_DIGEST}-golden.qcow2", overlay=False))
    assert clone.decide("web2", "web1", "full", there, _TOKEN).state == "there"


def test_where_images_cannot_travel_the_copy_is_beside_its_source() -> None:
    alone = _fleet(_source("web1"), alone="no keys")
    assert _wanted(alone).vms[0]["host"] == "hv1"
    assert _wanted(alone, host="hv2").vms[0]["host"] == "hv2"
    assert "host" not in _wanted(_fleet(_source("web1"))).vms[0]


def test_what_a_hypervisor_says_besides_decides_nothing() -> None:
    evil = {
        **_SPEC,
        "image": "secret.qcow2",
        "host": "hv9",
        "seed": {"commands": ["evil"]},
        "disks": [{"name": "vda", "image": "secret.qcow2", "size": 64}],
    }
    (vm,) = _wanted(_fleet(_source("web1", specification=evil))).vms
    assert "secret" not in str(vm)
    assert "evil" not in str(vm)
    assert "host" not in vm
    spoilt = {**_COPIED["hv1"]["images"][0], "volume": "secret.qcow2"}
    copied = {"hv1": {**_COPIED["hv1"], "images": [spoilt]}}
    seen = _fleet(_source("web1"))
    decision = clone.decide("web2", "web1", None, seen, _TOKEN)
    with pytest.raises(PlanRefused, match="no base image"):
        clone.wanted("web2", "web1", decision, seen, copied, {})


def test_a_copy_that_is_there_is_what_it_is() -> None:
    seen = _fleet(_source("web1"), _copy_of())
    decision = clone.decide("web2", "web1", None, seen, _TOKEN)
    assert (decision.state, decision.image) == ("there", "")
    found = _wanted(seen, memory=1024)
    assert "image" not in str(found.vms)
    assert (found.vms[0]["memory"], found.vms[0]["name"]) == (1024, "web2")
    alone = _fleet(_copy_of())  # its source was removed meanwhile
    assert clone.decide("web2", "web1", "linked", alone, _TOKEN).state == "there"


def test_a_copy_that_was_begun_is_made_of_the_same_images() -> None:
    seen = _fleet(_source("web1"), _copy_of(phase="creating"))
    decision = clone.decide("web2", "web1", None, seen, "89abcdef")
    assert (decision.state, decision.image) == ("begun", "")
    (vm,) = clone.wanted("web2", "web1", decision, seen, {}, {}).vms
    assert vm["disks"][0]["image"] == _VALUE  # type: ignore[index]


def test_copy_of_vm_whose_hypervisor_answers_is_new_while_another_is_silent() -> None:
    """Placing judges whether the silent one may have it, by what the others noted."""
    seen = _fleet(_source("web1"), silent=True)
    decision = clone.decide("web2", "web1", None, seen, _TOKEN)
    assert (decision.state, decision.host) == ("new", "hv1")


@pytest.mark.parametrize(
    ("seen", "mode", "said"),
    [
        (_fleet(), None, "no hypervisor has a VM 'web1'"),
        (_fleet(_source("web3"), silent=True), None, "but may be on one that did not (hv2: no"),
        (_fleet(_source("web1"), _source("web2")), None, "not a copy of 'web1'"),
        (_fleet(_source("web1"), _source("WEB2")), None, "ignoring case"),
        (_fleet(_source("web1"), _copy_of()), "full", "is a linked copy"),
        (_fleet(_source("web1"), _copy_of(overlay=False)), "linked", "is a full copy"),
        (_fleet(_source("web1"), _copy_of(f"https://x/{_VALUE}")), None, "not a copy of"),
        (_fleet(_source("web1"), _copy_of("secret.qcow2")), None, "not a copy of"),
        (_fleet(_source("web1"), _copy_of(clone_of="db1")), None, "not a copy of"),
        (
            _fleet(_source("web1", specification=None, problems=["odd"])),
            None,
            "cannot be copied: odd",
        ),
    ],
)
def test_refused(seen: clone.Fleet, mode: str | None, said: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        clone.decide("web2", "web1", mode, seen, _TOKEN)
    assert said in str(caught.value)


def test_its_disks_are_its_sources() -> None:
    with pytest.raises(PlanRefused, match="vm_image, vm_disks"):
        _wanted(_fleet(_source("web1")), image="x.qcow2", disks=[])


def test_a_copying_that_failed_makes_no_copy() -> None:
    seen = _fleet(_source("web1"))
    decision = clone.decide("web2", "web1", None, seen, _TOKEN)
    with pytest.raises(PlanRefused, match="disk full"):
        clone.wanted("web2", "web1", decision, seen, {"hv1": {"msg": "disk full"}}, {})


def test_clone_names_disks_whose_data_files_are_joined() -> None:
    serial = "sysinfo/system/entry[@name='serial']"
    seen = _fleet(_source("web1", left_out=[serial, DATA_STORE]))
    decided = clone.decide("web2", "web1", None, seen, "0")
    one_file, other = clone.left_out("web1", decided, seen, ())
    assert "in its copy each is one file, with the same content" in one_file
    assert "the copy of 'web1' lacks sysinfo/system/entry[@name='serial'], which" in other
