# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one creation sends because of the notes, in a fleet of 200 hypervisors with 5,000 VMs."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import handed, note
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _noted

_HOSTS, _EACH, _AT = 200, 25, 1_795_851_165_300
_RUN = "11111111-0000-4000-8000-000000000001"
_MIB = 1024 * 1024


def _machine(number: int) -> str:
    return f"{note.digest_of(str(number))[:8]}-0000-4000-8000-{note.digest_of(str(-number))[:12]}"


def _vm(number: int) -> dict[str, t.Any]:
    unlike = note.digest_of(f"vm {number}")
    return {
        "name": f"customer-{unlike[:3]}-application-{number:04}",
        "uuid": f"{unlike[:8]}-{unlike[8:12]}-4000-8000-{unlike[4:16]}",
        "macs": [f"52:54:00:{unlike[:2]}:{unlike[2:4]}:{unlike[4:6]}"],
        "addresses": [f"10.{number // 250}.0.{number % 250}"],
        "groups": ["web", "production"],
        "active": True,
        "managed": True,
        "run": _RUN,
    }


def _fleet(*grown: int) -> t.Any:
    """The answers of all: each holds the last readings of the others, and those in ``grown`` have
    got a VM since."""
    vms = {host: [_vm(host * _EACH + own) for own in range(_EACH)] for host in range(_HOSTS)}
    held = {
        host: note.reading(_machine(host), _AT, note.text_of(f"hv{host}", vms[host])).volume
        for host in vms
    }
    return {
        f"hv{host}": {
            "host": {
                "uuid": _machine(host),
                "at": _AT + 60_000 + host,
                "vms": [*vms[host], _vm(_HOSTS * _EACH + host)] if host in grown else vms[host],
                "notes": [held[other] for other in held if other != host],
            }
        }
        for host in vms
    }


def _sent(answers: t.Any) -> int:
    """The bytes that the controller sends to the hypervisor of the claims, and that one to others:
    names of what is lacked, the readings' contents, and the claims of the new VM."""
    missing = _noted.distribution(answers)
    claims = note.claims_of(_machine(0), _AT, _RUN, [_vm(-1)])
    named = sum(len(volume) for volumes in missing.lacks.values() for volume in volumes)
    told = sum(
        len(missing.readings.get(volume, ""))
        for volumes in missing.lacks.values()
        for volume in volumes
    )
    claimed = (_HOSTS - 1) * sum(len(claim.volume) for claim in claims)
    return len(handed.packed(handed.Handed(readings=missing.readings))) + 2 * named + told + claimed


@pytest.mark.parametrize("grown", [(), (7,), (7, 150), (3, 7, 60, 150), tuple(range(20))])
def test_creation_sends_less_than_a_mebibyte_to_large_fleet(grown: tuple[int, ...]) -> None:
    answers = _fleet(*grown)
    missing = _noted.distribution(answers)
    told = {volume.split(".")[1] for volume in missing.readings}
    assert told <= {_machine(host) for host in grown}, "only those whose digest differs travel"
    assert len(told) == min(len(grown), 2), "the others with the next creations"
    sent = _sent(answers)
    print(f"{len(grown)} grown since: {sent} bytes")
    assert sent < _MIB


def test_readings_that_are_put_off_are_sent_by_next_creations() -> None:
    """Those that replace the oldest go first; whoever has none of a hypervisor gets it at once."""
    grown = (3, 7, 60, 150)
    answers = _fleet(*grown)
    for number in grown:  # the clock of each is its own
        answers[f"hv{number}"]["host"]["at"] += 1000 * number
    new = answers["hv9"]["host"]["notes"]
    new[:] = [volume for volume in new if volume.split(".")[1] != _machine(3)]
    order: list[int] = []
    for _creation in range(2):
        missing = _noted.distribution(answers)
        lacks = {name: {*volumes} for name, volumes in missing.lacks.items()}
        for number in grown:
            volumes = {one for one in missing.readings if one.split(".")[1] == _machine(number)}
            if len([name for name in lacks if lacks[name] & volumes]) > 1:
                order.append(number)
        for name, volumes in lacks.items():
            machines = {volume.split(".")[1] for volume in volumes}
            notes = answers[name]["host"]["notes"]
            notes[:] = [one for one in notes if one.split(".")[1] not in machines] + [*volumes]
        assert any(one.split(".")[1] == _machine(3) for one in new), "it had none"
    assert order == [60, 150, 3, 7]
    assert not _noted.distribution(answers).lacks
