# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where domains are brought to a state, and what is told of each."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.outcomes import by_host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.decide import (
    Fleet,
    Told,
    decide,
    earlier_outcomes,
    report,
    tell,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest


def look(*names: str, groups: tuple[str, ...] = ()) -> dict[str, t.Any]:
    return {
        "vms": [
            {"name": name, "uuid": name, "phase": None, "groups": groups, "start_order": None}
            for name in names
        ]
    }


UP = StateRequest("running")
SILENT = {"unreachable": True, "msg": "ssh: no route"}


def seen(lost: t.Sequence[str] = (), **answers: dict[str, t.Any]) -> Fleet:
    return located.sort(answers, "vms", list(answers), lost)


def test_each_goes_where_it_is_whoever_else_is_silent() -> None:
    decision = decide(["web1", "db1"], [], seen(hv1=look("web1"), hv2=look("db1"), hv3=SILENT), UP)
    assert (decision.shares, decision.silent) == ({"hv1": ["web1"], "hv2": ["db1"]}, "")


def test_a_group_is_its_members_everywhere_and_the_silent_are_named() -> None:
    answers = {"hv1": look("web1", "web2", groups=("web",)), "hv2": look("db1")}
    assert decide([], ["web"], seen(**answers), UP).shares == {"hv1": ["web1", "web2"]}
    assert decide(["db1"], ["web"], seen(**answers), UP).shares == {
        "hv1": ["web1", "web2"],
        "hv2": ["db1"],
    }
    decision = decide([], ["web"], seen(**answers, hv3=SILENT), UP)
    assert decision.shares == {"hv1": ["web1", "web2"]}
    assert decision.silent == "hv3: ssh: no route"
    assert decide([], ["web"], seen(["hv3"], **answers, hv3=SILENT), UP).silent == ""


@pytest.mark.parametrize(
    ("names", "groups", "answers", "part"),
    [
        ([], [], {"hv1": look("web1")}, "no VM is named"),
        ([], ["mail"], {"hv1": look("web1")}, "no VM is in mail"),
        (["web9"], [], {"hv1": look("web1")}, "no hypervisor has a VM 'web9'"),
        (["web9"], [], {"hv1": look(), "hv2": SILENT}, "may be on one that did not"),
        (["hv1"], [], {"hv1": look("web1")}, "'hv1' is a hypervisor, not a VM"),
        (
            ["web1"],
            [],
            {"hv1": look("web1"), "hv2": look("web1")},
            "on hv1 and hv2 with the same UUID",
        ),
        (["web1"], [], {"hv1": SILENT}, "no hypervisor answered"),
    ],
)
def test_what_is_not_proven_is_refused(
    names: list[str], groups: list[str], answers: dict[str, t.Any], part: str
) -> None:
    with pytest.raises(PlanRefused, match=part):
        decide(names, groups, seen(**answers), UP)


def entry(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {
        **{"name": name, "state": "running", "before": "shutoff", "changed": True, "msg": None},
        **{"steps": ["start"], **more},
    }


def test_every_name_has_a_row_and_whoever_said_nothing_has_failed() -> None:
    answers = {
        "hv1": {"vms": [entry("a"), entry("b", changed=False, steps=[])]},
        "hv2": {"module_stderr": "Killed", "rc": 137},
        "hv3": {"vms": [entry("d", failed=True, changed=False, msg="it is in phase purging")]},
    }
    shares = {"hv1": ["a", "b"], "hv2": ["c"], "hv3": ["d"]}
    text, failures = report(tell(shares, answers, Told()), "", check=False)
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert "changed" in rows["a"]
    assert "start" in rows["a"]
    assert "unchanged" in rows["b"]
    assert "failed" in rows["c"]
    assert [failure.partition(":")[0] for failure in failures] == ["c on hv2", "d on hv3"]
    assert "SIGKILL" in failures[0]
    assert "phase purging" in failures[1]
    assert "would change" in report(tell({"hv1": ["a"]}, answers, Told()), "", check=True)[0]


def test_report_of_check_mode_shows_the_present_state() -> None:
    answers = {"hv1": {"vms": [entry("a", before="saved", steps=["start from its saved memory"])]}}
    for check, state in ((True, "saved"), (False, "running")):
        told = tell({"hv1": ["a"]}, answers, Told(), check=check)
        (_heads, row) = report(told, "", check=check)[0].splitlines()
        assert row.split()[2] == state


def test_who_may_have_more_of_a_group_is_a_failure() -> None:
    told = tell({"hv1": ["a"]}, {"hv1": {"vms": [entry("a")]}}, Told())
    _text, failures = report(told, "hv2: gone", check=False)
    assert failures == [
        "not all hypervisors answered, and VMs there that were meant too were not changed:"
        " hv2: gone"
    ]


def test_report_after_rounds_names_host_of_each_failure() -> None:
    """What the rounds noted came back through Ansible, as text."""
    bad = entry("b", failed=True, changed=False, msg="no memory")
    answers = {"hv1": {"vms": [entry("a")]}, "hv2": {"vms": [bad]}}
    noted = tell({"hv1": ["a"], "hv2": ["b"]}, answers, Told())
    failures = {name: "".join(why) for name, why in noted.failures.items()}
    returned = earlier_outcomes({"rows": noted.rows, "failures": failures})
    _text, reported = report(returned, "", check=False)
    assert by_host(reported, ["hv1", "hv2"]) == {"hv2": ["b on hv2: no memory"]}


def ordered(**orders: int | None) -> dict[str, t.Any]:
    one = look(*orders)
    return {"vms": [{**vm, "start_order": orders[vm["name"]]} for vm in one["vms"]]}


def test_the_rounds_go_over_all_hypervisors() -> None:
    fleet_seen = seen(hv1=ordered(db1=10, web1=20, other=None), hv2=ordered(web2=20, first=0))
    names = ["web1", "web2", "db1", "other", "first"]
    found = decide(names, [], fleet_seen, UP)
    assert found.shares == {"hv1": ["web1", "db1", "other"], "hv2": ["web2", "first"]}
    up = [{"hv2": ["first"]}, {"hv1": ["db1"]}, {"hv1": ["web1"], "hv2": ["web2"]}]
    assert found.rounds == [*up, {"hv1": ["other"]}]
    assert decide(names, [], fleet_seen, StateRequest("shutoff")).rounds == found.rounds[::-1]
    assert decide(names, [], fleet_seen, StateRequest(autostart=True)).rounds == [found.shares]


def test_after_a_failure_no_further_round_is_begun_and_each_name_is_told() -> None:
    first = tell({"hv1": ["db1"]}, {"hv1": {"vms": [entry("db1")]}}, Told())
    bad = entry("web1", failed=True, changed=False, msg="no memory")
    share = {"hv1": ["web1"], "hv2": ["web2"]}
    answers = {"hv1": {"vms": [bad]}, "hv2": {"vms": [entry("web2")]}}
    note = vars(tell(share, answers, earlier_outcomes(vars(first))))
    # its answer of the round before is still registered
    last = tell({"hv2": ["last"]}, answers, earlier_outcomes({**note, "changed": False}))
    text, failures = report(last, "", check=False)
    assert [line.split()[:1] + line.split()[3:5] for line in text.splitlines()[1:]] == [
        ["db1", "changed", "start"],
        ["last", "not", "tried"],
        ["web1", "failed", "start"],
        ["web2", "changed", "start"],
    ]
    assert [one.partition(":")[0] for one in failures] == ["web1 on hv1", "last on hv2"]
    assert "'web1', before it by start_order, failed" in failures[1]


def test_pattern_is_its_matches_on_all_hypervisors() -> None:
    answers = {"hv1": look("web1", "db1"), "hv2": look("web2"), "hv3": SILENT}
    decision = decide(["web*"], [], seen(**answers), UP)
    assert decision.shares == {"hv1": ["web1"], "hv2": ["web2"]}
    assert decision.silent == "hv3: ssh: no route"
    with pytest.raises(PlanRefused, match=r"no VM matches 'mail\*'"):
        decide(["mail*", "db1"], [], seen(**answers), UP)
    with pytest.raises(PlanRefused, match=r"'mail\*'; .*; hv3: ssh: no route; bring hv3 back"):
        decide(["mail*"], [], seen(**answers), UP)


def duplicates(*uuids: str) -> dict[str, t.Any]:
    answers = {f"hv{number}": look("web1", "db1") for number, _ in enumerate(uuids, 1)}
    for answer, uuid in zip(answers.values(), uuids, strict=True):
        answer["vms"][0]["uuid"] = uuid
        answer["vms"][1]["uuid"] = f"db1 {uuid}"
    return answers


def test_duplicate_is_refused_until_its_hypervisor_is_named() -> None:
    with pytest.raises(PlanRefused) as refused:
        decide(["web1"], [], seen(**duplicates("a", "b")), UP)
    assert "'web1' is defined on hv1 and hv2" in str(refused.value)
    assert "-e vm_host=hv1" in str(refused.value)
    for host in ("hv1", "hv2"):
        decision = decide(["web1"], [], seen(**duplicates("a", "b")), UP, host)
        assert decision.shares == {host: ["web1"]}


def test_pattern_on_named_hypervisor_matches_its_vms() -> None:
    answers = {"hv1": look("web1"), "hv2": look("web2", "db1")}
    assert decide(["*"], [], seen(**answers), UP, "hv2").shares == {"hv2": ["db1", "web2"]}


@pytest.mark.parametrize(
    ("names", "host", "part"),
    [
        (["web1"], "hv2", "on hv1 and hv2 with the same UUID"),  # a move, not a duplicate
        (["web9"], "hv2", "no hypervisor has a VM 'web9'"),
        (["web1"], "hv9", "vm_host: 'hv9' is not a hypervisor of this play"),
    ],
)
def test_vm_that_named_hypervisor_has_not_or_shares_is_refused(
    names: list[str], host: str, part: str
) -> None:
    with pytest.raises(PlanRefused, match=part):
        decide(names, [], seen(**duplicates("a", "a")), UP, host)
