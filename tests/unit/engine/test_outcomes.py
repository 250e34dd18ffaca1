# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whoever was asked and gave no result has failed, with the reason that Ansible has."""

from __future__ import annotations

import copy
import pickle
import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.report import mark
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.report import (
    report as migrated,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.report import Made
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.report import (
    report as provisioned,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.report import report as purged

# As ansible-core 2.18, 2.19 and 2.21 register them with ``failed_when: false``
QUIET = {"changed": False, "failed": False, "failed_when_result": False}
NO_JSON = "Module result deserialization failed: No start of json char found"
KILLED_218 = {
    **QUIET,
    "module_stderr": "Killed\n",
    "module_stdout": "",
    "msg": "MODULE FAILURE\nSee stdout/stderr for the exact error",
    "rc": 137,
}
KILLED_219 = {
    **QUIET,
    "failed_when_suppressed_exception": "(traceback unavailable)",
    "module_stderr": "Killed\n",
    "module_stdout": "",
    "msg": NO_JSON,
    "rc": 137,
}
OBJECT = SimpleNamespace(event="Module result deserialization failed.")
RAISED = {
    **KILLED_219,
    "module_stderr": "Traceback (most recent call last):\n  File x\nValueError: boo\n",
    "rc": 1,
}
TIMED_OUT = {"failed": True, "msg": "Task failed: Timed out after 60 second(s).", "timedout": {}}
GONE = {"unreachable": True, "changed": False, "msg": "Failed to connect: no route to host"}
REFUSED = {**QUIET, "msg": "the lock of the host is held", "error": "PlanRefused"}
MISTYPED = {**QUIET, "msg": "value of quiesce must be one of: auto, always, never, got: maybe"}
SKIPPED = {"skipped": True, "changed": False, "skip_reason": "Conditional result was False"}

REASONS = [
    (KILLED_218, "its module returned no result: it was killed (SIGKILL)"),
    (KILLED_219, "its module returned no result: it was killed (SIGKILL)"),
    ({**KILLED_219, "rc": -9}, "its module returned no result: it was killed (SIGKILL)"),
    ({**KILLED_219, "rc": 143}, "its module returned no result: it was killed (SIGTERM)"),
    (
        {
            **KILLED_219,
            "module_stdout": "Killed\r\n",
            "module_stderr": "Shared connection to 192.0.2.1 closed.\r\n",
        },
        "its module returned no result: it was killed (SIGKILL)",
    ),
    ({**KILLED_219, "rc": 128 + 7}, "its module returned no result: it was killed (signal 7)"),
    ({**KILLED_219, "rc": None}, "its module returned no result"),
    (RAISED, "its module returned no result, exit status 1: ValueError: boo"),
    (
        {**RAISED, "rc": 255, "module_stderr": "sudo: a password is required"},
        "its module returned no result, exit status 255: sudo: a password is required",
    ),
    (TIMED_OUT, "Task failed: Timed out after 60 second(s)."),
    (GONE, "Failed to connect: no route to host"),
    (REFUSED, "the lock of the host is held"),
    ({**QUIET, "exception": "Traceback\nKeyError: 'x'"}, "KeyError: 'x'"),
    # as Ansible 2.19 has it in a play: no text, and its representation is no reason
    ({**KILLED_219, "exception": OBJECT}, "its module returned no result: it was killed (SIGKILL)"),
    ({**QUIET, "exception": OBJECT}, "its answer does not mention it"),
    ({**QUIET, "vms": None}, "its answer does not mention it"),
    (SKIPPED, "it was skipped because an earlier step failed"),
    ({}, "it was skipped because an earlier step failed"),
    ({"msg": "a\n\x1b[2Jb"}, "a \\x1b[2Jb"),
    ({"msg": "x" * 1000}, "x" * 400 + "... (1000 characters)"),
]


_DATA = "Data could not be sent to remote host {}. Make sure this host can be reached over {}: "
_VIA = "Failed to connect to the host via ssh: "
_TO = "ssh: connect to host 198.18.2.13 port {}: "
UNREACHED = [
    (_VIA + _TO.format(22) + "No route to host", "no route to host"),
    (
        _DATA.format('"hv3"', "ssh") + _TO.format(22) + "Connection timed out",
        "connection timed out",
    ),
    ("Task failed: " + _VIA + _TO.format(22) + "Connection refused", "connection refused"),
    (_VIA + _TO.format(2222) + "Connection refused", "connection refused (port 2222)"),
    (_DATA.format("'hv3'", "SSH") + "[Errno 32] Broken pipe", "its connection broke off"),
    (_VIA + "root@hv3: Permission denied (publickey).", "root@hv3: Permission denied (publickey)."),
    (_VIA + "ssh: Could not resolve hostname hv3: Unknown", None),
    (_VIA, _VIA),
    ("hv3 is declared lost", "hv3 is declared lost"),
    (f"it said: {_VIA}x", f"it said: {_VIA}x"),
]


def test_failures_of_several_hypervisors_are_sorted_by_them() -> None:
    both = [outcomes.Failure(host, "there is no pool") for host in ("hv2", "hv3")]
    gone, general = outcomes.Failure("hv9", "vm1 on hv9: killed"), "vm2 is on no hypervisor"
    sorted_failures = outcomes.by_host([*both, gone, general, both[0]], ["hv1", "hv2", "hv3"])
    assert sorted_failures == {
        "hv2": ["there is no pool"],
        "hv3": ["there is no pool"],
        "hv1": ["vm1 on hv9: killed", "vm2 is on no hypervisor"],
    }
    assert {type(message) for those in sorted_failures.values() for message in those} == {str}


def test_failure_can_be_copied_and_sent() -> None:
    failure = outcomes.Failure("hv2", "there is no pool")
    for copied in (copy.deepcopy(failure), pickle.loads(pickle.dumps(failure))):  # noqa: S301
        assert (copied, copied.host) == (failure, "hv2")
    assert type(failure.plain) is str


def test_failed_name_knows_its_hypervisor() -> None:
    requested = {"hv1": ["a"], "hv2": ["b", "c"]}
    answers = {"hv2": {"vms": [{"name": "b", "error": "no"}, {"name": "c"}]}}
    problems = [outcome.problem for outcome in outcomes.outcomes(requested, answers)]
    hosts = [getattr(problem, "host", None) for problem in problems]
    assert hosts == ["hv1", "hv2", None]


@pytest.mark.parametrize(("message", "reason"), UNREACHED)
def test_silent_hypervisor_reason_is_without_ansibles_preface(
    message: str, reason: str | None
) -> None:
    expected = message.removeprefix(_VIA) if reason is None else reason
    assert outcomes.unreached(message) == expected
    assert outcomes.reason({"unreachable": True, "msg": message}) == expected.strip()


_PROMPT = "Timeout (12s) waiting for privilege escalation prompt: "
_SENT = (
    'Data could not be sent to remote host "192.0.2.6". Make sure this host can be reached over'
    " ssh:"
)


@pytest.mark.parametrize("before", ["", "Task failed: "])
@pytest.mark.parametrize("message", [_PROMPT, _PROMPT.strip(), _SENT, f"{_SENT} "])
def test_hypervisor_whose_cable_was_cut_is_named_as_cut_off(message: str, before: str) -> None:
    reason = outcomes.unreached(before + message, "hv6")
    assert reason.startswith("hv6 was cut off; ")
    assert outcomes.unreached(reason) == reason, "what was read stays when it is read again"


def test_prompt_that_sudo_printed_is_shown_as_it_is() -> None:
    assert outcomes.unreached(f"{_PROMPT}Token:") == f"{_PROMPT}Token:"


@pytest.mark.parametrize(("answer", "reason"), REASONS)
def test_each_result_that_is_none_has_a_reason(answer: dict[str, t.Any], reason: str) -> None:
    assert outcomes.reason(answer) == reason
    ((host, name, entry, problem),) = [
        (one.host, one.name, one.entry, one.problem)
        for one in outcomes.outcomes({"hv1": ["web1"]}, {"hv1": answer})
    ]
    assert (host, name, entry) == ("hv1", "web1", None)
    assert problem is not None
    assert problem.startswith(f"web1 on hv1: {reason}; ")
    assert "run it again" in problem
    assert outcomes.without_answer(["hv1"], {"hv1": answer}, "vms") == {"hv1": reason}


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        *((REFUSED, True), (MISTYPED, True)),
        *((KILLED_219, False), (RAISED, False), (TIMED_OUT, False), (GONE, False)),
    ],
    ids=["refused", "mistyped", "killed", "raised", "timed out", "unreachable"],
)
def test_what_a_module_refuses_is_to_be_mended(answer: dict[str, t.Any], known: bool) -> None:
    said = outcomes.error_message(answer)
    assert ("what it had done by then is unknown" in said) is not known
    assert ("fix that, and run it again" in said) is known


def test_every_name_has_exactly_one_outcome() -> None:
    requested = {"hv1": ["a", "b", "c", "a"], "hv2": ["d"], "hv3": []}
    entries: list[t.Any] = [
        {"name": "a", "failed": False},
        {"name": "a", "failed": True, "msg": "a second one"},
        {"name": "b", "failed": True, "msg": "why"},
        {"name": "stranger", "failed": False},
        {"no": "name"},
        "c",
    ]
    found = outcomes.outcomes(requested, {"hv1": {"vms": entries, "rc": 0}, "hv4": {"vms": []}})
    assert [(one.host, one.name, one.problem is None) for one in found] == [
        ("hv1", "a", True),
        ("hv1", "b", False),
        ("hv1", "c", False),
        ("hv2", "d", False),
    ]
    assert found[1].problem == "b on hv1: why"
    assert "its answer does not mention it" in str(found[2].problem)
    silent = outcomes.outcomes({"hv1": ["a"]}, {"hv1": {"vms": "a text", "msg": "odd"}})
    assert str(silent[0].problem).startswith("a on hv1: odd")
    nameless = outcomes.outcomes({"hv1": ["a"]}, {"hv1": {"vms": [{"name": "a", "failed": True}]}})
    assert nameless[0].problem == "a on hv1: its answer does not mention it"


ITEM = {"kind": "volume", "name": "default/a", "path": "/pool/a", "size_mib": 8}
GONE_VM = {
    "name": "web1",
    "failed": False,
    "msg": None,
    "removed": [ITEM],
    "kept": [{"path": "/base/b", "reason": "a backing file"}],
}


@pytest.mark.parametrize("check", [False, True])
def test_what_became_of_a_purge(check: bool) -> None:
    shares = {"hv1": ["web1"], "hv2": ["web2", "web3"]}
    refused = {**GONE_VM, "name": "web2", "failed": True, "msg": "'web2' runs", "removed": []}
    text, failures = purged(
        ["web1", "web2", "web3", "web4"],
        shares,
        {"hv1": {"vms": [GONE_VM]}, "hv2": {"vms": [{**refused, "kept": []}]}, "hv3": {}},
        check=check,
    )
    assert failures[0] == "web2 on hv2: 'web2' runs"
    assert failures[1].startswith("web3 on hv2: its answer does not mention it; ")
    rows = [line.split() for line in text.splitlines()[1:]]
    word = ["would", "go"] if check else ["removed"]
    assert rows[0] == ["web1", "hv1", *word, "volume", "/pool/a", "8"]
    assert rows[1][:3] == ["web1", "hv1", "stays"]
    assert rows[2][:3] == ["web2", "hv2", "failed"]
    assert rows[3][:3] == ["web3", "hv2", "failed"]
    assert rows[4][:4] == ["web4", "-", "not", "there"]


@pytest.mark.parametrize("check", [False, True])
def test_a_purge_that_was_killed_is_not_taken_for_one_of_nothing(check: bool) -> None:
    text, failures = purged(["web1"], {"hv1": ["web1"]}, {"hv1": KILLED_219}, check=check)
    assert failures[0].startswith(
        "web1 on hv1: its module returned no result: it was killed (SIGKILL)"
    )
    assert "not there" not in text
    assert "failed" in text


def test_nothing_to_purge_says_so() -> None:
    text, failures = purged(["web1", "web2"], {}, {"hv1": {}}, check=False)
    assert failures == []
    assert text.splitlines()[-1] == "nothing to do: no hypervisor has web1 or web2"
    gone = {"name": "web1", "failed": False, "removed": [], "kept": []}
    text, failures = purged(["web1"], {"hv1": ["web1"]}, {"hv1": {"vms": [gone]}}, check=False)
    assert (text.splitlines()[1].split()[:4], failures) == (["web1", "hv1", "not", "there"], [])


MOVED = {
    "name": "web1",
    "destination": "hv2",
    "flow": "overlay",
    "changed": True,
    "failed": False,
    "msg": None,
    "progress": ["web1: 50 %"],
    "bytes_to_copy": 1 << 20,
    "bytes": 5 << 20,
    "seconds": 3.5,
    "downtime_ms": 20,
}
SHARES: dict[str, list[dict[str, t.Any]]] = {
    "hv1": [{"name": "web1", "destination": {"name": "hv2"}}]
}


def test_what_became_of_a_move() -> None:
    text, failures = migrated(["db1"], SHARES, {"hv1": {"vms": [MOVED]}}, check=False)
    assert failures == []
    lines = text.splitlines()
    assert "web1: 50 %" not in text, "it was shown while it moved"
    assert lines[1].split() == ["db1", "-", "-", "stays", "-", "-", "-"]
    assert lines[2].split() == ["web1", "hv1", "hv2", "moved", "(overlay)", "5", "3.5", "20"]
    there = {**MOVED, "changed": False}
    assert "was there" in migrated([], SHARES, {"hv1": {"vms": [there]}}, check=False)[0]
    predicted = {**MOVED, "bytes": "(generated)"}
    assert (
        "would move (overlay)" in migrated([], SHARES, {"hv1": {"vms": [predicted]}}, check=True)[0]
    )
    failed = {**MOVED, "failed": True, "msg": "why"}
    text, failures = migrated([], SHARES, {"hv1": {"vms": [failed]}}, ["db2: no room"], check=False)
    assert failures == ["web1 on hv1: why", "db2: no room"]
    assert "moved" not in text


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("answer", [KILLED_218, KILLED_219, RAISED, TIMED_OUT, GONE, REFUSED, {}])
def test_a_move_without_a_result_has_failed(answer: dict[str, t.Any], check: bool) -> None:
    text, failures = migrated([], SHARES, {"hv1": answer, "hv2": SKIPPED}, check=check)
    assert len(failures) == 1
    assert failures[0].startswith(f"web1 on hv1: {outcomes.reason(answer)}; ")
    assert text.splitlines()[1].split()[:4] == ["web1", "hv1", "hv2", "failed"]


def test_a_move_that_was_undone_did_not_move() -> None:
    undone = {**MOVED, "flow": "undo", "note": "it ran before"}
    text, failures = migrated([], SHARES, {"hv1": {"vms": [undone]}}, state="repaired", check=False)
    assert "stays (its move was undone)" in text
    assert "moved" not in text
    assert (text.splitlines()[-1], failures) == ("web1: it ran before", [])
    begun = {**MOVED, "flow": "finish"}
    text, _failures = migrated([], SHARES, {"hv1": {"vms": [begun]}}, state="repaired", check=True)
    assert "would be finished or undone" in text


def test_nothing_to_move_says_so() -> None:
    assert migrated([], {}, {}, check=False) == ("nothing to do: no VM has to move\n", [])
    text, _failures = migrated(["db1"], {}, {}, state="repaired", check=True)
    assert text.splitlines()[-1] == "nothing to do: no move was interrupted"
    assert "nothing to do" not in migrated([], {}, {}, ["db1: no room"], check=False)[0]


def test_whether_a_hypervisor_is_in_maintenance_is_said() -> None:
    assert mark("hv1", present=True, check=False).startswith("hv1 is in maintenance: no VM is")
    assert mark("hv1", present=True, check=True).startswith("hv1 would be in maintenance: ")
    assert mark("hv1", present=False, check=False) == "hv1 is no longer in maintenance\n"


def created(name: str, **changes: t.Any) -> dict[str, t.Any]:
    return {"name": name, "changed": True, "failed": False, "msg": None, **changes}


def answers(name: str, **changes: t.Any) -> dict[str, t.Any]:
    return {"name": name, "answered": True, "address": "192.0.2.1", "msg": None, **changes}


def test_what_became_of_vms_that_were_to_be_made() -> None:
    requested = {"hv1": ["a", "b", "c"], "hv2": ["d"], "hv3": ["e"]}
    made = Made(
        requested=requested,
        created={
            "hv1": {"vms": [created("b"), created("c", failed=True, msg="no such CPU")]},
            "hv2": KILLED_219,
            "hv3": {"vms": [created("e")]},
        },
        done={"hv1": [created("a")]},
        waits={"hv1": ["a", "b", "c"], "hv2": ["d"], "hv3": ["e"]},
        waited={
            "hv1": {"vms": [answers("a"), answers("b", answered=False, msg="no address")]},
            "hv3": KILLED_218,
        },
        withdrawn={"hv1": ["x"], "hv4": ["y"]},
    )
    hypervisors, failures = provisioned(made, check=False)
    assert [
        (host["name"], vm["name"], vm["failed"], vm["answered"], vm["address"])
        for host in hypervisors
        for vm in host["vms"]
    ] == [
        ("hv1", "a", False, True, "192.0.2.1"),
        ("hv1", "b", False, False, "192.0.2.1"),
        ("hv1", "c", True, None, None),
        ("hv2", "d", True, None, None),
        ("hv3", "e", False, None, None),
    ]
    begun = [
        "c on hv1: no such CPU",
        "d on hv2: its module returned no result: it was killed (SIGKILL); ",
        "b on hv1: no address; it exists",
        "e on hv3: its module returned no result: it was killed (SIGKILL); ",
        "hv4: the claim of y may still exist because it was not withdrawn: it was skipped",
    ]
    assert len(failures) == len(begun)
    for failure, words in zip(failures, begun):
        assert failure.startswith(words)
    text = [line.split() for line in tables.render("vms", hypervisors).splitlines()[1:]]
    assert text == [
        ["a", "hv1", "192.0.2.1", "created"],
        ["b", "hv1", "192.0.2.1", "created,", "does", "not", "answer"],
        ["c", "hv1", "-", "failed"],
        ["d", "hv2", "-", "failed"],
        ["e", "hv3", "-", "created,", "not", "known", "whether", "it", "answers"],
    ]


@pytest.mark.parametrize(
    ("first_boot", "word", "failure"),
    [
        (None, "created, does not answer", "a on hv1: why; it exists, but there is no sign"),
        ("failed", "created, its first boot failed", "a on hv1: why"),
        ("running", "created, its first boot is still running", "a on hv1: why"),
    ],
)
def test_one_that_answers_before_its_first_boot_is_done_is_not_said_to_be_silent(
    first_boot: str | None, word: str, failure: str
) -> None:
    heard = answers("a", answered=False, msg="why", first_boot=first_boot)
    made = Made(
        requested={"hv1": ["a"]},
        created={"hv1": {"vms": [created("a")]}},
        waits={"hv1": ["a"]},
        waited={"hv1": {"vms": [heard]}},
    )
    hypervisors, failures = provisioned(made, check=False)
    assert tables.render("vms", hypervisors).rstrip().endswith(word)
    assert failures[0].startswith(failure)
    assert (failures[0] == failure) is (first_boot is not None)


@pytest.mark.parametrize(
    ("entry", "restarted", "done", "predicted"),
    [
        ({}, False, "created", "would be created"),
        ({"existed": True}, False, "changed", "would be changed"),
        ({"existed": True, "changed": False}, False, "unchanged", "unchanged"),
        (
            {"existed": True, "restart_required": True},
            False,
            "changed, needs a restart",
            "would be changed, needs a restart",
        ),
        (
            {"existed": True, "restart_required": True, "pending": ["vcpus", "cpu"]},
            False,
            "changed, needs a restart (vcpus, cpu)",
            "would be changed, needs a restart (vcpus, cpu)",
        ),
        (
            {"existed": True, "restart_required": True, "pending": 1},
            False,
            "changed, needs a restart",
            "would be changed, needs a restart",
        ),
        (
            {"existed": True, "restart_required": True},
            True,
            "changed, restarted",
            "would be changed, needs a restart",
        ),
        (
            {"existed": True, "changed": False, "restart_required": True},
            True,
            "restarted",
            "unchanged, needs a restart",
        ),
        (
            {"existed": True, "changed": False, "restart_required": True},
            False,
            "unchanged, needs a restart",
            "unchanged, needs a restart",
        ),
    ],
)
def test_one_that_was_there_is_not_created(
    entry: dict[str, t.Any], restarted: bool, done: str, predicted: str
) -> None:
    names = frozenset({"a"} if restarted else {"b"})
    made = Made({"hv1": ["a"]}, {"hv1": {"vms": [created("a", **entry)]}}, restarted=names)
    for check, words in ((False, done), (True, predicted)):
        hypervisors, failures = provisioned(made, check=check)
        assert not failures
        text = tables.render("vms", hypervisors, predicted=check)
        assert text.splitlines()[1].split(None, 3) == ["a", "hv1", "-", words]


@pytest.mark.parametrize("answer", [KILLED_218, KILLED_219, RAISED, TIMED_OUT, GONE, REFUSED, {}])
def test_check_mode_fails_too_where_nothing_was_said(answer: dict[str, t.Any]) -> None:
    made = Made({"hv1": ["a"]}, {"hv1": answer}, waits={"hv1": ["a"]}, withdrawn={"hv1": ["b"]})
    hypervisors, failures = provisioned(made, check=True)
    assert [failure.split(":")[0] for failure in failures] == ["a on hv1"]
    assert hypervisors[0]["vms"][0]["failed"] is True
    waiting = Made({"hv1": ["a"]}, {"hv1": {"vms": [created("a")]}}, waits={"hv1": ["a"]})
    assert provisioned(waiting, check=True)[1] == []
