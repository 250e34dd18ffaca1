# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of a wait, from the results of its calls."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.plugin_utils.base._wait import Progress


def vm(name: str, **facts: t.Any) -> dict[str, t.Any]:
    empty = {"address": None, "source": None, "seconds": None, "answered": False}
    answered = bool(facts.get("answered"))
    more = {"msg": "" if answered else "no address", "console": [], "changed": False}
    return {"name": name, **empty, **more, **facts}


def test_a_wait_of_three_calls() -> None:
    progress = Progress("hv1", ["web1", "web2"])
    assert progress.begin(22, 300.0) == [
        "web1 on hv1: waiting until it answers on port 22 (at most 300 s)",
        "web2 on hv1: waiting until it answers on port 22 (at most 300 s)",
    ]
    found = vm("web1", address="192.0.2.5", source="agent", msg="port closed")
    assert progress.take({"vms": [found, vm("web2")], "waiting": ["web1", "web2"]}, 0) == [
        "web1: address 192.0.2.5 from the guest agent"
    ]
    answers = {**found, "seconds": 2.31, "answered": True, "msg": ""}
    assert progress.take({"vms": [answers, vm("web2")], "waiting": ["web2"]}, 10.04) == [
        "web1: answers after 12.3 s"
    ]
    assert progress.pending == ["web2"]
    ended = vm("web2", msg="it does not run: crashed (panicked)", console=["Kernel panic"])
    assert progress.take({"vms": [ended], "waiting": []}, 20.0) == []
    assert progress.pending == []
    assert [entry["name"] for entry in progress.vms()] == ["web1", "web2"]
    assert progress.failure() == "web2: it does not run: crashed (panicked)"
    assert progress.consoles() == [
        "web2 on hv1 does not answer: it does not run: crashed (panicked)",
        "web2: last lines of its console:",
        "  web2 | Kernel panic",
    ]


def test_one_whose_first_boot_failed_is_not_said_to_be_silent() -> None:
    progress = Progress("hv1", ["web1"])
    failed = vm("web1", seconds=2.0, first_boot="failed", msg="its first boot failed: x")
    progress.take({"vms": [failed], "waiting": []}, 0)
    assert progress.consoles()[0] == "web1 on hv1: its first boot failed: x"


def test_an_address_that_was_told_is_no_news() -> None:
    first = Progress("hv1", ["web1", "web2"], "address")
    assert (
        first.begin(22, 300.0)[0] == "web1 on hv1: waiting until it has an address (at most 300 s)"
    )
    found = vm("web1", address="192.0.2.5", source="neighbour", seconds=4.2, answered=True)
    assert first.take({"vms": [found, vm("web2")], "waiting": []}, 0) == [
        "web1: address 192.0.2.5 from the neighbour table"
    ]
    second = Progress("hv1", ["web1", "web2"], earlier=first.vms())
    other = vm("web2", address="192.0.2.6", source="console", seconds=1.0, answered=True)
    assert second.take({"vms": [found, other], "waiting": []}, 5.0) == [
        "web1: answers after 9.2 s",
        "web2: address 192.0.2.6 from its console",
        "web2: answers after 6 s",
    ]


def test_all_answer() -> None:
    progress = Progress("hv1", ["web1"])
    found = vm("web1", address="192.0.2.5", source="neighbour", seconds=0.4, answered=True)
    assert progress.take({"vms": [found], "waiting": []}, 0) == [
        "web1: address 192.0.2.5 from the neighbour table",
        "web1: answers after 0.4 s",
    ]
    assert progress.failure() is None
    assert progress.consoles() == []


def test_a_seed_medium_that_goes_and_one_that_does_not() -> None:
    progress = Progress("hv1", ["web1", "web2"])
    gone = vm("web1", seconds=1.0, answered=True, changed=True)
    stays = vm("web2", seconds=1.0, answered=True, msg="its seed medium is still there: why")
    assert progress.take({"vms": [gone, stays], "waiting": []}, 0) == [
        "web1: answers after 1 s",
        "web1: its seed medium was removed",
        "web2: answers after 1 s",
        "web2: its seed medium is still there: why",
    ]
    assert progress.failure() is None
