# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who must answer before what, what is advised about those that do not; the guide says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import PROOFS, Silence

ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs" / "docsite" / "rst" / "silent_hypervisors.rst"
DOWN = Silence("no route")
ILL = Silence("libvirtd does not answer", reached=True)
AWAY = Silence("excluded by --limit", asked=False)


def rendered() -> str:
    """The table as the guide has it."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    rows = [("verb", "what must be proven", "who must answer")]
    rows += [(one.verb, one.proven, one.answer) for one in PROOFS.values()]
    for row in rows:
        lines += [f"   {'*' if not n else ' '} - {cell}" for n, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def test_the_guide_shows_the_table() -> None:
    assert rendered() in GUIDE.read_text(encoding="utf-8"), f"\n{rendered()}"


@pytest.mark.parametrize("name", PROOFS)
def test_every_row_is_asked_for_by_the_code(name: str) -> None:
    """``read`` needs nobody, so nobody asks; one that any code forgets would only be words."""
    call = re.compile(rf'(?:missing|require)\(\s*"{name}"')
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "plugins").rglob("*.py")]
    assert any(map(call.search, code)) == (PROOFS[name].who != proofs.ANY)


@pytest.mark.parametrize(
    ("proof", "concerned", "expected"),
    [
        ("read", ["hv3"], []),
        ("move", ["hv1", "hv2"], []),
        ("move", ["hv1", "hv3"], ["hv3"]),
        ("purge", ["hv1"], []),
        ("purge shared", [], ["hv3"]),
        ("prune", ["hv1"], ["hv3"]),
        ("absent", [], ["hv3"]),
        ("create", [], ["hv3"]),
    ],
)
def test_who_must_answer(proof: str, concerned: list[str], expected: list[str]) -> None:
    assert list(proofs.missing(proof, {"hv3": DOWN}, *concerned)) == expected


@pytest.mark.parametrize("proof", ["purge shared", "prune"])
def test_deletion_on_shared_storage_needs_the_answers_of_all(proof: str) -> None:
    assert PROOFS[proof].who == proofs.ALL, "a note permits no deletion"
    assert PROOFS[proof].answer.startswith("all hypervisors")
    silent = proofs.missing(proof, {"hv3": DOWN, "hv4": AWAY}, "hv1")
    assert proofs.named(silent) == "hv3: no route; hv4: excluded by --limit"
    assert proofs.remedy(silent).startswith("bring hv3 back; only if permanently gone")


def test_who_is_silent() -> None:
    answers = {
        "hv1": {"host": {}},
        "hv2": {"unreachable": True, "msg": "timed out"},
        "hv3": {"failed": True, "msg": "lost"},
        "hv6": {"failed": True, "msg": "Timed out after 60 second(s)."},
        "hv7": {},
        "hv9": {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Killed", "rc": 137},
        "hv10": {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "OSError: x", "rc": 1},
        "hv8": {"changed": False, "domains": []},
    }
    expected = ["hv1", "hv2", "hv3", "hv4", "hv5"]
    assert proofs.silences(answers, ["hv1"], expected, ["hv3", "hv5"]) == {
        "hv2": Silence("timed out"),
        "hv4": AWAY,
        "hv6": Silence("Timed out after 60 second(s).", reached=True),
        "hv7": Silence("it did not answer"),
        "hv9": Silence(
            "its module returned no result: it was killed (SIGKILL)", reached=True, killed=True
        ),
        "hv10": Silence("MODULE FAILURE", reached=True),
        "hv8": Silence(
            "its response is not what a module of this collection returns", reached=True
        ),
    }


def test_only_one_that_cannot_be_reached_may_be_called_lost() -> None:
    assert "virt_hypervisors_lost=hv2" in proofs.remedy({"hv2": DOWN})
    for one in (ILL, AWAY):
        assert "lost" not in proofs.remedy({"hv2": one})
    assert "run without --limit" in proofs.remedy({"hv2": AWAY})
    text = proofs.remedy({"hv2": DOWN, "hv3": ILL, "hv4": AWAY})
    assert text.endswith(
        "-e virt_hypervisors_lost=hv2; hv3 can be reached, so fix the problem reported for it; run"
        " without --limit to include hv4"
    )


def test_killed_module_is_to_be_run_again() -> None:
    text = proofs.remedy({"hv2": Silence("it was killed", reached=True, killed=True)})
    assert text == "run it again: the module on hv2 was killed"


def test_a_lost_one_that_nobody_knows() -> None:
    assert proofs.unknown_lost(["hv1"], ["hv1", "hv2"]) is None
    assert "names hv9, not a hypervisor of this play; its hypervisors: hv1" in str(
        proofs.unknown_lost(["hv9"], ["hv1"])
    )


@pytest.mark.parametrize("error", ["ssh: root@hv2: Permission denied (publickey).", "x: no route"])
def test_a_machine_that_refuses_a_login_answers(error: str) -> None:
    """Ansible calls it unreachable all the same."""
    registered = {"hv2": {"unreachable": True, "msg": error}}
    (found,) = proofs.silences(registered, (), None, ()).values()
    assert found.reached == ("denied" in error)
    assert ("virt_hypervisors_lost" in proofs.remedy({"hv2": found})) != found.reached


def test_hypervisor_that_inventory_lacks_is_declared_lost_by_uuid() -> None:
    machine = "4498c960-c945-4dda-bd96-1e23a5828fe2"
    assert proofs.unknown_lost([machine], ["hv1"]) is None
    assert proofs.unknown_lost([machine[:-1]], ["hv1"]) is not None
