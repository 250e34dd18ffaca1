# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs of a hypervisor that is off go where, and which stay, with the reasons."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    PlacementHost,
    PoolFacts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import Policy
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import decide, plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.decide import (
    RestartDecision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.facts import (
    CardEntry,
    RestartLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import SeenCard
from ansible_collections.fleet.virt.tests.unit.notes.test_rule import VM_UUID, WHEN, Notes, vm
from ansible_collections.fleet.virt.tests.unit.notes.test_silent import told

_NOTED = ("web1", "db1", "db2", "moved1", "ha1")
_SILENT = {"hv3": Silence("no route to host")}
_KNOWN = ["hv1", "hv2", "hv3"]
_GIVEN = decide.Silenced({"hv3": ["192.0.2.3"], "hv2": ["192.0.2.3"]})


def entry(name: str = "web1", **given: object) -> CardEntry:
    usual: CardEntry = {
        "name": name,
        "uuid": f"uuid of {name}",
        "path": f"/srv/{name}@hv3.fleet.xml",
        "identity": "7",
        "hosts": ["hv3"],
        "running": True,
        "defined": False,
        "problems": [],
        "locked": [],
        "lockless": [],
        "vcpus": 1,
        "memory_mib": 512,
        "domain_type": None,
        "arch": None,
        "bridges": [],
        "networks": [],
        "nwfilters": [],
        "vsock": False,
        "disks": [{"path": f"/srv/{name}.qcow2", "bytes": 1}],
        "groups": [],
        "macs": [],
        "affinity": [],
        "anti_affinity": [],
        "tags": [],
        "zone": None,
    }
    return {**usual, **given}  # type: ignore[typeddict-item]


def answer(*cards: CardEntry, **given: object) -> RestartLook:
    usual: RestartLook = {"cards": [*cards], "unread": [], "signs": {}, "audible": ["192.0.2.3"]}
    host: dict[str, object] = {"vms": []}
    return {**usual, "host": host, **given}  # type: ignore[typeddict-item,return-value]


def _host(name: str, memory: int = 8192) -> PlacementHost:
    pool = PoolFacts("shared", "/srv", 100000, 0, 90000, 1.0)
    return PlacementHost(
        name,
        maintenance=False,
        domain_types=frozenset({"kvm"}),
        arch="x86_64",
        memory_total_mib=memory,
        memory_limit_mib=memory,
        vcpus_total=8,
        vcpus_max=8,
        vcpus_limit=32,
        pools=(pool,),
    )


def _decide(
    answers: t.Mapping[str, RestartLook],
    *names: str,
    hosts: t.Sequence[PlacementHost] = (),
    off: t.Sequence[str] = ("hv3",),
    stated: t.Sequence[str] = (),
) -> RestartDecision:
    there = hosts or [_host(name) for name in answers]
    policy = Policy(pool_paths={}, base_pool="base")
    return decide.decide(off, names, answers, there, _SILENT, policy, stated)


def test_vm_without_locks_stays_where_only_person_says_off() -> None:
    weak = ["/srv is mounted with nolock: locks are held on this hypervisor only"]
    cards = [entry(lockless=weak), entry("web2")]
    answers = {"hv1": answer(entry(), entry("web2")), "hv2": answer(*cards)}
    stated = _decide(answers, stated=("hv3",))
    assert stated.shares == {"hv1": ["web2"]}
    assert "/srv is mounted with nolock" in stated.failures["web1"]
    assert "-e virt_host=hv3 -e virt_fenced=hv3 -e vm_name=web1" in stated.failures["web1"]
    named = _decide(answers, "web1", stated=("hv3",))
    assert (named.failures, sum(map(len, named.shares.values()))) == ({}, 1)
    assert [note for note in named.notes if "no lock holds a process of hv3 off" in note]
    for others in ((), ("hv4",)):
        proven = _decide(answers, stated=others)
        assert not proven.failures
        assert not [note for note in proven.notes if "no lock" in note]
    both = _decide(answers, off=("hv3", "hv4"), stated=("hv4",))
    assert not both.failures, "its own hypervisor is proven off"


def test_vm_goes_to_hypervisor_that_can_run_it() -> None:
    answers = {
        "hv1": answer(entry(problems=["'web1' cannot run on hv1: its base image"])),
        "hv2": answer(entry()),
    }
    decision = _decide(answers)
    assert (decision.shares, decision.running, decision.agent) == (
        {"hv2": ["web1"]},
        ["web1"],
        "hv2",
    )
    assert "memory that was saved to a file on hv3 is lost" in decision.notes[0]


def test_vms_without_a_card_are_noted_to_stay() -> None:
    notes = Notes()
    cell = {"name": "ha1", "cell": "a", "quorate": True, "unclean": []}
    vms = [vm(name, uuid=f"{number}{VM_UUID[1:]}") for number, name in enumerate(_NOTED)]
    noted = told(notes, 1, notes.of(3, *vms))
    here = told(notes, 2, here=[vms[3]["uuid"]])
    answers = {"hv1": answer(entry(), in_cells=[cell], noted=noted), "hv2": answer(noted=here)}
    decision = _decide(answers)
    assert decision.shares == {"hv1": ["web1"]}
    said = f"on hv3 stays, as hv1 noted at {WHEN}: db1, db2; no card names them: only a VM has one"
    assert [note for note in decision.notes if note.startswith(said)]
    assert not decision.failures
    assert not [note for note in _decide(answers, "web1").notes if "noted at" in note]


def test_vm_that_was_off_is_not_started() -> None:
    decision = _decide({"hv1": answer(entry(running=False))})
    assert (decision.shares, decision.running) == ({"hv1": ["web1"]}, [])


def test_vm_that_no_hypervisor_can_run_stays_with_reasons() -> None:
    problems = {"hv1": ["no base image on hv1"], "hv2": ["no bridge on hv2"]}
    answers = {host: answer(entry(problems=why)) for host, why in problems.items()}
    decision = _decide(answers)
    assert (decision.shares, decision.agent) == ({}, "")
    assert decision.failures == {"web1": "no base image on hv1; no bridge on hv2"}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"unclean": ["hv3"]}, "once hv3 is proven off; if you have seen"),
        ({}, "starts it elsewhere by itself; if it does not run, see why"),
        ({"cell": None, "quorate": False}, "no member with quorum answers"),
    ],
)
def test_vm_of_cell_is_left_to_it(seen: dict[str, t.Any], why: str) -> None:
    card = {"name": "ha1", "cell": "rack1", "quorate": True, "unclean": [], **seen}
    decision = _decide({"hv1": answer(in_cells=[card])}, "ha1")
    assert why in decision.failures["ha1"]
    assert not decision.shares


def test_vm_without_card_is_named() -> None:
    answers = {
        "hv1": answer(entry()),
        "hv2": answer(host={"vms": [{"name": "db1", "uuid": "uuid of db1"}]}),
    }
    decision = _decide(answers, "web1", "db1", "old1")
    assert decision.shares == {"hv1": ["web1"]}
    assert decision.failures["db1"] == "'db1' is on hv2, not on hv3"
    assert "no card of 'old1' names hv3" in decision.failures["old1"]


def test_vm_of_which_hypervisor_has_uuid_stays() -> None:
    vms = [{"name": "other", "uuid": "uuid of web1"}]
    has = {"host": {"vms": vms}}
    answers = {"hv1": answer(entry()), "hv2": answer(entry(defined=True), **has)}
    assert "hv2 has a VM of the UUID of 'web1'" in _decide(answers).failures["web1"]
    assert decide.without_leftovers(answers) == answers
    answers = {"hv1": answer(entry()), "hv2": answer(**has)}
    assert "hv2 has a VM of the UUID of 'web1'" in _decide(answers).failures["web1"]


@pytest.mark.parametrize("place", ["hv1", "hv2"])
def test_leftover_of_vm_on_hypervisor_that_came_back_is_none(place: str) -> None:
    """Whether the VM goes there, or elsewhere."""
    vms = {"host": {"vms": [{"name": "web1", "uuid": "uuid of web1"}]}}
    answers = {"hv1": answer(entry(), **vms), "hv2": answer(entry(problems=["no bridge"]))}
    if place == "hv2":
        answers["hv1"], answers["hv2"] = answer(entry()), answer(entry(), **vms)
    left = decide.without_leftovers(answers)
    assert not [vm for one in left.values() for vm in one["host"]["vms"]]  # type: ignore[index]
    decision = _decide(left, hosts=[_host("hv1"), _host("hv2", 100)])
    assert (decision.shares, decision.failures) == ({"hv1": ["web1"]}, {})


def test_begun_takeover_is_continued_where_it_was_begun() -> None:
    """Whatever placement would choose, and though the domain may be defined there already."""
    begun = entry(hosts=["hv3", "hv2"])
    vms = [{"name": "web1", "uuid": "uuid of web1"}]
    answers = {"hv1": answer(begun), "hv2": answer(begun, host={"vms": vms})}
    assert _decide(answers).shares == {"hv2": ["web1"]}


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        (["hv3", "hv4"], "names hv3 and hv4, and hv4 does not answer, but may have it"),
        (["hv3", "hv4"], "restart_elsewhere -e virt_host=hv3,hv4"),
        (["hv4", "hv3"], "restart_elsewhere -e virt_host=hv4,hv3"),
        (["hv3", "hv4", "hv2"], "restart_elsewhere -e virt_host=hv3,hv4"),
        (["hv3", "hv1", "hv2"], "names hv3 and hv1 and hv2, and hv1 answers, but may have it"),
        (["hv1", "hv3"], "'web1' was on its way from hv1 to hv3; settle its move on hv1 first"),
    ],
)
def test_vm_that_another_hypervisor_may_have_stays(hosts: list[str], message: str) -> None:
    answers = {"hv1": answer(entry(hosts=hosts)), "hv2": answer(entry(hosts=hosts))}
    decision = _decide(answers)
    assert not decision.shares
    assert message in decision.failures["web1"]


@pytest.mark.parametrize("hosts", [["hv3", "hv4"], ["hv4", "hv3"]])
def test_vm_of_two_hypervisors_that_are_off_goes_to_a_third(hosts: list[str]) -> None:
    decision = _decide({"hv1": answer(entry(hosts=hosts))}, off=["hv4", "hv3"])
    assert (decision.shares, decision.failures) == ({"hv1": ["web1"]}, {})
    assert decision.origins == {"web1": " and ".join(hosts)}


def test_vm_whose_storage_its_new_hypervisor_lacks_stays() -> None:
    answers = {"hv1": answer(entry(hosts=["hv3", "hv2"])), "hv2": answer()}
    assert "hv2, which the card of 'web1' names, does not" in _decide(answers).failures["web1"]


def test_vms_of_each_hypervisor_that_is_off_are_restarted() -> None:
    answers = {"hv1": answer(entry("web1"), entry("web2", hosts=["hv4"]))}
    decision = _decide(answers, off=["hv3", "hv4"])
    assert decision.shares == {"hv1": ["web1", "web2"]}
    assert decision.origins == {"web1": "hv3", "web2": "hv4"}


def _moved(**given: object) -> CardEntry:
    """The same VM's card beside disks in another pool."""
    disks = [{"path": "/fast/web1.qcow2", "bytes": 1}]
    return entry(**{"path": "/fast/web1@hv3.fleet.xml", "disks": disks, **given})


@pytest.mark.parametrize(
    "answers",
    [
        {"hv1": answer(entry(), _moved()), "hv2": answer(entry())},
        {"hv1": answer(entry()), "hv2": answer(_moved(), entry())},
        {"hv1": answer(entry(), _moved(hosts=["hv3", "hv2"])), "hv2": answer(entry())},
        {"hv1": answer(entry(), _moved(disks=entry()["disks"]))},
        {"hv1": answer(entry(), unread=["/fast/web1@hv3.fleet.xml: broken"])},
        {"hv1": answer(entry()), "hv2": answer(unread=["/fast/web1@hv3.fleet.xml: b"])},
    ],
)
def test_vm_with_two_cards_goes_nowhere(answers: dict[str, RestartLook]) -> None:
    for names in ([], ["web1"]):
        decision = _decide(answers, *names)
        assert not decision.shares
        why = decision.failures["web1"]
        assert "/srv/web1@hv3.fleet.xml" in why
        assert "/fast/web1@hv3.fleet.xml" in why


@pytest.mark.parametrize("place", ["hv1", "hv2"])
def test_second_card_of_hypervisor_that_is_not_off_counts(place: str) -> None:
    """That hypervisor may be silent, and have the VM; the other one lacks the pool of its card."""
    why = plan.second_card("/srv/web1@hv3.fleet.xml", "/fast/web1@hv4.fleet.xml")
    answers = {"hv1": answer(entry()), "hv2": answer(entry())}
    answers[place] = answer(entry(problems=[f"'web1' cannot run on {place}: {why}"]))
    decision = _decide(answers)
    assert not decision.shares
    assert "/fast/web1@hv4.fleet.xml" in decision.failures["web1"]


@pytest.mark.parametrize("place", ["hv1", "hv2"])
def test_second_card_under_another_name_counts(place: str) -> None:
    """Of a VM that was renamed, and is asked for by either name, or not at all."""
    renamed = _moved(name="web0", uuid="uuid of web1", path="/fast/web0@hv3.fleet.xml")
    answers = {"hv1": answer(entry()), "hv2": answer(entry())}
    answers[place] = answer(entry(), renamed)
    for names in ([], ["web1"], ["web0", "web1"]):
        decision = _decide(answers, *names)
        assert not decision.shares
        assert {*decision.failures} >= {*names}
        assert "/fast/web0@hv3.fleet.xml" in decision.failures["web1"]


def test_cards_that_differ_are_not_used() -> None:
    """Another run has taken it between two looks, or each sees its own card."""
    for other in (entry(hosts=["hv3", "hv1"]), _moved()):
        answers = {"hv1": answer(entry()), "hv2": answer(other)}
        why = _decide(answers).failures["web1"]
        assert "hypervisors see different cards, /srv/web1@hv3.fleet.xml and " in why
        assert "run this again" in why


def test_cards_by_which_vms_were_chosen_are_handed_to_their_hypervisor() -> None:
    seen = decide.seen_cards(["web1"], answer(entry(), entry("web2")))
    assert seen == [SeenCard("web1", "/srv/web1@hv3.fleet.xml", "7", "uuid of web1")]


def test_unreadable_card_is_failure() -> None:
    decision = _decide({"hv1": answer(entry(), unread=["/srv/db1@hv3.fleet.xml: broken"])})
    assert decision.failures == {"/srv/db1@hv3.fleet.xml": "/srv/db1@hv3.fleet.xml: broken"}


def test_vm_that_fits_nowhere_stays() -> None:
    decision = _decide({"hv1": answer(entry(memory_mib=100000))})
    assert "web1 fits nowhere. hv1: " in decision.failures["web1"]


def test_second_vm_counts_first() -> None:
    """Each takes more than half of the memory."""
    big = [entry("web1", memory_mib=4000), entry("web2", memory_mib=4000)]
    answers = {"hv1": answer(*big), "hv2": answer(*big)}
    decision = _decide(answers, hosts=[_host("hv1", 7000), _host("hv2", 7000)])
    assert sorted(map(len, decision.shares.values())) == [1, 1], decision


def test_locked_disk_is_noted_before_fencing() -> None:
    decision = _decide({"hv1": answer(entry(locked=["/srv/web1.qcow2"]))})
    assert decision.shares == {"hv1": ["web1"]}
    assert "is locked by a process now" in "".join(decision.notes)


@pytest.mark.parametrize(
    ("answers", "silent", "message"),
    [
        (
            {"hv1": answer(signs={"192.0.2.3": "answers on port 22"})},
            _SILENT,
            "hv3 answers on port",
        ),
        ({"hv1": answer(), "hv3": answer()}, {}, "hv3 answers, so it is not down"),
        (
            {"hv1": answer()},
            {"hv3": Silence("Permission denied", reached=True)},
            "hv3 answers (Permission denied)",
        ),
        ({}, _SILENT, "no hypervisor answered"),
        ({"hv1": answer(signs={"192.0.2.3": "answers on port 22"})}, {}, "hv3 answers on port 22"),
    ],
)
def test_hypervisor_that_is_not_silent_is_refused(
    answers: dict[str, RestartLook], silent: dict[str, Silence], message: str
) -> None:
    with pytest.raises(PlanRefused) as raised:
        decide.require_silence(["hv3"], answers, silent, _KNOWN, _GIVEN)
    assert message in str(raised.value)


def test_unknown_hypervisor_is_refused() -> None:
    said = (
        "'hv9' is no hypervisor of this play; name the one that is off, for example -e virt_host="
    )
    with pytest.raises(PlanRefused, match=said):
        decide.require_silence(["hv9"], {"hv1": answer()}, _SILENT, _KNOWN, _GIVEN)


def test_own_sign_of_hypervisor_that_answers_is_not_quoted() -> None:
    answers = {
        "hv1": answer(),
        "hv3": answer(signs={"192.0.2.3": "answers on port 22 (127.0.0.1)"}),
    }
    with pytest.raises(PlanRefused, match="hv3 answers, so"):
        decide.require_silence(["hv3"], answers, {}, _KNOWN, _GIVEN)


def test_vms_that_hypervisor_lacks_are_named_if_it_answers() -> None:
    cards = [entry("web2"), entry("web1"), entry("db1", defined=True)]
    cards.append(entry("db2", hosts=["hv3", "hv1"]))  # hv1 takes it over
    with pytest.raises(PlanRefused) as raised:
        decide.require_silence(["hv3"], {"hv3": answer(*cards)}, {}, _KNOWN, _GIVEN)
    said = "; by their cards it has web1, web2, which it has not: what can be done says"
    assert f"{said} ansible-playbook fleet.virt.repair_vms" in str(raised.value)


def test_each_of_two_hypervisors_has_to_be_silent() -> None:
    for off in (["hv2", "hv3"], ["hv3", "hv2"]):
        with pytest.raises(PlanRefused, match="hv2 answers"):
            decide.require_silence(off, {"hv1": answer(), "hv2": answer()}, _SILENT, _KNOWN, _GIVEN)


def test_silent_hypervisor_is_accepted() -> None:
    decide.require_silence(["hv3"], {"hv1": answer()}, _SILENT, _KNOWN, _GIVEN)


_UNHEARD = "that hv3 is silent says nothing: .* -e virt_fenced=hv3"


@pytest.mark.parametrize("audible", [[], ["192.0.2.9"]])
def test_inaudible_hypervisor_is_not_silent(audible: list[str]) -> None:
    seen = {"hv1": answer(audible=audible), "hv2": answer(audible=[])}
    with pytest.raises(PlanRefused, match=_UNHEARD):
        decide.require_silence(["hv3"], seen, _SILENT, _KNOWN, _GIVEN)
    stated = dataclasses.replace(_GIVEN, stated=["hv3"])
    decide.require_silence(["hv3"], seen, _SILENT, _KNOWN, stated)
    seen["hv2"] = answer(audible=["192.0.2.3"])
    decide.require_silence(["hv3"], seen, _SILENT, _KNOWN, _GIVEN)


def test_both_hypervisors_must_be_audible() -> None:
    given = decide.Silenced({"hv3": ["192.0.2.3"], "hv2": ["192.0.2.2"]})
    silent = {**_SILENT, "hv2": _SILENT["hv3"]}
    with pytest.raises(PlanRefused, match="that hv2 is silent says nothing"):
        decide.require_silence(["hv3", "hv2"], {"hv1": answer()}, silent, _KNOWN, given)


def test_sign_is_ignored_of_hypervisor_that_is_named_for_it() -> None:
    seen = {"hv1": answer(signs={"192.0.2.3": "answers ARP requests for 192.0.2.3"})}
    given = decide.Silenced({"hv3": ["192.0.2.3"], "hv2": ["192.0.2.2"]}, ignored=["hv2"])
    with pytest.raises(PlanRefused, match=r"hv3 answers ARP .*-e virt_signs_ignored=hv3"):
        decide.require_silence(["hv3"], seen, _SILENT, _KNOWN, given)
    given = dataclasses.replace(given, ignored=["hv3"])
    decide.require_silence(["hv3"], seen, _SILENT, _KNOWN, given)
    reached = {"hv3": Silence("not a hypervisor", reached=True)}
    with pytest.raises(PlanRefused, match="hv3 answers"):
        decide.require_silence(["hv3"], seen, reached, _KNOWN, given)


def test_others_note_name_uuid_and_macs_of_vms_that_go_elsewhere() -> None:
    machine, vm_uuid = (f"{digit * 8}-0000-4000-8000-{'1' * 12}" for digit in "1c")
    host = {"uuid": machine, "at": 10_000, "vms": []}
    cards = [entry(uuid=vm_uuid, macs=["52:54:00:00:00:0a"], groups=["web"]), entry("web2")]
    made = decide.claims({"hv1": ["web1"]}, {"hv1": answer(*cards, host=host)}, "this run")
    claims = [claim for volume in made if isinstance(claim := note.parse(volume), note.Claim)]
    assert {(claim.machine, claim.at) for claim in claims} == {(machine, 10_000)}
    assert [(claim.kind, claim.value) for claim in claims] == [
        ("name", "web1"),
        ("uuid", vm_uuid),
        ("mac", "52-54-00-00-00-0a"),
        ("vm", f"{vm_uuid}.1.web.web1"),
    ]
    assert decide.claims({"hv2": ["web1"]}, {}, "this run") == []


def test_refusal_for_several_hypervisors_names_command_for_each() -> None:
    seen = {"hv1": answer(signs={"192.0.2.3": "answers on port 22"})}
    with pytest.raises(PlanRefused) as refused:
        decide.require_silence(["hv2", "hv3"], seen, _SILENT, _KNOWN, _GIVEN)
    assert "hv2 or hv3 answers on port 22, as hv1 sees it" in str(refused.value)
    for host in ("hv2", "hv3"):
        assert f"ansible-playbook fleet.virt.evacuate -e virt_host={host}" in str(refused.value)
