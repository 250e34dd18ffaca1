# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables for people: what they show and what they never do to a terminal."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables

SILENT = {"name": "hv9", "answered": False, "error": "no route to host", "host": None}


def host(**changes: t.Any) -> dict[str, t.Any]:
    counts = {"total": 4, "running": 2, "defined": 3}
    facts: dict[str, t.Any] = {
        "maintenance": False,
        "domain_types": ["kvm", "qemu"],
        "cpu": counts,
        "memory_mib": {**counts, "free": 1},
        "domains": {"running": 2, "shutoff": 5, "crashed": 1},
        "pools": [
            {"name": "base", "state": "running", "available_mib": 2048},
            {"name": "cold", "state": "inactive", "available_mib": 0},
        ],
    }
    return {"name": "hv1", "answered": True, "error": None, "host": {**facts, **changes}}


def domain(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": "web1",
        "state": "running",
        "reason": "booted",
        "vcpus": 2,
        "memory_mib": 1024,
        "graphics": [],
        "disks": [],
        "nics": [],
        "error": None,
        **changes,
    }


def hypervisor(*domains: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"name": "hv1", "answered": True, "error": None, "domains": list(domains)}


def test_columns_are_aligned_and_numbers_to_the_right() -> None:
    text = tables.table(["NAME", "N"], [["a", 1], ["longer", 200], ["x", None]])
    assert text.splitlines() == ["NAME      N", "a         1", "longer  200", "x         -"]


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ({"phase": None, "move": None, "problem": None}, "booted"),
        ({"phase": "changing", "move": None, "problem": None}, "booted, in phase changing"),
        (
            {"phase": "migrating", "move": {"destination": "hv2"}, "problem": None},
            "booted, moving to hv2",
        ),
        ({"phase": "unreadable", "move": None, "problem": "its metadata …"}, "booted"),
    ],
)
def test_vm_in_a_phase_is_shown_with_it(stored: dict[str, t.Any], reason: str) -> None:
    fleet = [hypervisor(domain(metadata=stored))]
    assert tables.listing(fleet).splitlines()[1].split("  ")[-1] == reason
    assert f"    State: running ({reason})" in tables.query(fleet).splitlines()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ["hv1", "ready", "kvm/qemu", "4", "2", "3", "4", "1", "2", "3", "3", "5"]),
        ({"maintenance": True}, ["hv1", "maintenance"]),
        ({"maintenance": None}, ["hv1", "base", "pool?"]),
        ({"memory_mib": dict.fromkeys(("total", "free", "running", "defined"))}, ["hv1", "ready"]),
    ],
)
def test_host_info(facts: dict[str, t.Any], words: list[str]) -> None:
    lines = tables.host_info([host(**facts), SILENT]).splitlines()
    assert lines[2].split()[: len(words)] == words
    assert lines[2].endswith("base:2.0G")
    assert lines[3].split()[:3] == ["hv9", "no", "answer"]
    assert lines[-1] == "hv9: no answer: no route to host"


def test_host_info_says_what_is_counted_and_how_much_there_is() -> None:
    unknown = {"total": 4, "running": 2, "defined": 3, "free": None}
    found = [host(), host(memory_mib=unknown), SILENT]
    above, heads, *rows = tables.host_info(found).splitlines()
    assert [above.index(word) for word in ("CPUS", "MEMORY MIB", "DOMAINS")] == [
        heads.index(word) for word in ("TOTAL", "TOTAL  FREE", "ACTIVE")
    ]
    total = "TOTAL 2 of 3 - 8 4 6 8 - 4 6 6 10 -"
    assert re.sub(r" +", " ", rows[3]) == total
    assert "TOTAL" not in "".join(tables.host_info([host()]).splitlines()[2:])
    assert re.sub(r" +", " ", tables.host_info([SILENT, SILENT]).splitlines()[4]) == (
        "TOTAL 0 of 2 " + " ".join("-" * 11)
    )


def test_listing() -> None:
    silent = {**SILENT, "domains": []}
    found = [hypervisor(domain(), domain(name="b", error="odd")), silent]
    assert tables.listing(found).splitlines() == [
        "HYPERVISOR  NAME  STATE    REASON",
        "hv1         web1  running  booted",
        "hv1         b     running  booted",
        "hv1: b: odd",
        "hv9: no answer: no route to host",
        "1 of 2 hypervisors answered; VMs on hv9 are not shown",
    ]
    assert tables.query(found).splitlines()[-1] == (
        "1 of 2 hypervisors answered; VMs on hv9 are not shown"
    )
    assert tables.listing([hypervisor()]) == "hv1: no domains\n"
    named = tables.listing([hypervisor()], none=tables.NONE_NAMED)
    assert named == "hv1: none of the named domains\n"


@pytest.mark.parametrize(
    ("graphics", "line"),
    [
        ({"type": "vnc", "port": 5900}, "    Graphics: vnc - hv1:5900"),
        ({"type": "vnc", "port": None}, "    Graphics: vnc - hv1:no port while it is off"),
        ({"type": "spice", "port": None, "tls_port": 5901}, "    Graphics: spice - hv1:5901"),
        ({"type": "vnc", "port": None, "socket": "/run/x"}, "    Graphics: vnc - hv1:/run/x"),
    ],
)
def test_graphics(graphics: dict[str, t.Any], line: str) -> None:
    assert line in tables.query([hypervisor(domain(graphics=[graphics]))]).splitlines()


def test_query_has_the_known_fields() -> None:
    disk = {"target": "vda", "size_mib": 2048, "source": "/x.qcow2", "format": "qcow2"}
    nic = {"mac": "52:54:00:00:00:01", "source": "br0", "type": "bridge", "addresses": ["a", "b"]}
    drive = {"device": "cdrom", "target": "sda", "size_mib": None, "source": None, "format": None}
    text = tables.query(
        [hypervisor(domain(disks=[disk, drive], nics=[nic], error="odd")), hypervisor()]
    )
    assert text.splitlines() == [
        "hv1:",
        "  web1",
        "    CPU: 2",
        "    Memory: 1024 MiB",
        "    State: running (booted)",
        "    Disk - vda:",
        "      Size: 2.0G",
        "      File: /x.qcow2",
        "      File Format: qcow2",
        "    CD drive - sda: empty",
        "    Nic - 52:54:00:00:00:01:",
        "      Source: br0",
        "      Type: bridge",
        "      Addresses: a b",
        "    Error: odd",
        "hv1:",
        "  no domains",
    ]


@pytest.mark.parametrize(
    "name", ["\x1b[2Jclear", "a\nb", "\x9b31m", "right\u202eleft", "\x00", "tab\t"]
)
def test_control_characters_are_shown_not_sent(name: str) -> None:
    entry = hypervisor(domain(name=name, error=name, graphics=[{"type": name, "port": 1}]))
    for view in (tables.listing, tables.query):
        text = view([entry])
        assert name not in text
        assert all(c.isprintable() or c == "\n" for c in text)
    assert "ünïcode" in tables.listing([hypervisor(domain(name="ünïcode"))])


def test_images() -> None:
    image = {
        "name": "debian12.qcow2",
        "digest": "0123456789abcdef" * 4,
        "format": "qcow2",
        "size_mib": 2048,
        "allocated_mib": 400,
        "intact": None,
        "users": [],
    }
    used = {**image, "name": "x", "intact": False, "users": ["domain 'web1'", "domain 'db1'"]}
    text = tables.render(
        "images",
        [
            {"name": "hv1", "answered": True, "error": None, "images": [image, used]},
            {"name": "hv2", "answered": True, "error": None, "images": []},
            {"name": "hv3", "answered": False, "error": "timed out", "images": None},
        ],
    )
    lines = [re.sub(r" +", " ", line) for line in text.splitlines()]
    assert lines == [
        "HYPERVISOR IMAGE DIGEST FORMAT MIB ON DISK CONTENT USED BY",
        "hv1 debian12.qcow2 0123456789ab qcow2 2048 400 - none",
        "hv1 x 0123456789ab qcow2 2048 400 DAMAGED domain 'web1', domain 'db1'",
        "hv2: no images",
        "hv3: no answer: timed out",
    ]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("0123456789abcdef" * 4, "0123456789ab"),
        ("0123456789abcdef" * 8, "0123456789ab"),
        ("/base/" + "ab" * 32 + "-debian12.qcow2", "/base/abababababab-debian12.qcow2"),
        ("ab" * 31, "ab" * 31),
        ("ab" * 33, "ab" * 33),
        ("AB" * 32, "AB" * 32),
    ],
)
def test_digest_in_table_is_cut_to_twelve_digits(cell: str, shown: str) -> None:
    assert tables.table(["WHAT"], [[cell]]).splitlines() == ["WHAT", shown]
    assert cell in tables.csv_text(["what"], [[cell]])


def test_maintenance() -> None:
    marks = {"hv1": True, "hv2": False, "hv3": None}
    found = [{"name": name, "maintenance": mark} for name, mark in marks.items()]
    assert [line.split() for line in tables.render("maintenance", found).splitlines()] == [
        ["HYPERVISOR", "STATE"],
        ["hv1", "maintenance"],
        ["hv2", "ready"],
        ["hv3", "failed"],
    ]


def placed(name: str, *hosts: str, existing: t.Sequence[str] = ()) -> dict[str, t.Any]:
    ranking = [{"host": host, "score": 1.5, "notes": ["odd"]} for host in hosts]
    rejected = [{"host": f"hv{i}", "filter": "memory", "reason": "full"} for i in range(30)]
    outcome = {"ranking": ranking, "rejected": rejected, "why": "most free memory" if hosts else ""}
    return {"name": name, "existing": existing, **outcome}


def test_placements_have_a_line_for_each_vm_and_all_hypervisors_only_if_asked() -> None:
    found = [placed("a", "x", "y"), placed("b"), placed("c", existing=["z"])]
    lines = [re.sub(r" +", " ", line) for line in tables.placements(found).splitlines()]
    assert lines == [
        "VM HYPERVISOR PLACE WHY",
        "a x chosen most free memory; odd",
        "b - nowhere -",
        "c z exists already -",
    ]
    every = tables.placements(found, every=True)
    assert len(every.splitlines()) == 1 + 2 + 30 + 1 + 30 + 1
    assert "chosen, 1.500" in every
    assert "possible, 1.500" in every
    assert "no: memory" in every


_LONG = "averylongnameofavm"


def _fitted(columns: int | None, heads: list[str], rows: list[list[t.Any]]) -> list[str]:
    with tables.fitting(columns):
        return tables.table(heads, rows).splitlines()


@pytest.mark.parametrize("columns", [None, 80, 200])
def test_table_that_fits_or_has_no_screen_keeps_names(columns: int | None) -> None:
    rows = [[_LONG * 3, "hv1", "running"]]
    assert _LONG * 3 in _fitted(columns, ["NAME", "HYPERVISOR", "STATE"], rows)[1]
    assert tables.table(["NAME"], [["n" * 300]]).splitlines()[1] == "n" * 300


@pytest.mark.parametrize(("columns", "name"), [(80, 60), (60, 40), (40, 20)])
def test_table_narrow_screen_cuts_names_to_fit(columns: int, name: int) -> None:
    rows = [["n" * 70, "hv1", "running"], ["web1", "hv2", "shutoff"]]
    lines = _fitted(columns, ["NAME", "HYPERVISOR", "STATE"], rows)
    assert max(map(len, lines)) <= columns
    assert lines[1].startswith("n" * (columns - 22) + "~ ")
    assert len(lines[1].split()[0]) >= name - 3
    assert lines[2].split() == ["web1", "hv2", "shutoff"]


def test_table_names_that_would_read_alike_differ() -> None:
    names = [f"{_LONG}{_LONG}{number}" for number in (1, 2, 12)] + [f"{_LONG}~"]
    lines = _fitted(
        40, ["HYPERVISOR", "NAME", "STATE"], [["hv1", name, "running"] for name in names]
    )
    cells = [line.split()[1] for line in lines[1:]]
    assert len(set(cells)) == len(names)
    assert max(map(len, lines)) <= 40
    assert all("~" in cell for cell in cells)


def test_table_names_stay_distinct_even_if_the_line_wraps() -> None:
    names = ["a" * 30 + "b" + "c" * 30, "a" * 30 + "d" + "c" * 30]
    lines = _fitted(20, ["VM", "STATE"], [[name, "running"] for name in names])
    assert len({line.split()[0] for line in lines[1:]}) == 2


def test_table_prose_at_the_end_does_not_cost_more_of_names_than_a_part() -> None:
    rows = [["n" * 30, "hv1", "a long reason " * 20]]
    lines = _fitted(80, ["VM", "HYPERVISOR", "WHY"], rows)
    assert lines[1].startswith("n" * 30 + "  hv1")
    assert _fitted(60, ["VM", "HYPERVISOR", "WHY"], rows)[1].startswith("n" * 21 + "~  hv1")


def test_table_cuts_names_only() -> None:
    path = "/var/lib/libvirt/images/" + "x" * 70
    rows = [["web1", "hv1", "removed", path]]
    assert path in _fitted(60, ["VM", "HYPERVISOR", "RESULT", "WHAT"], rows)[1]


def test_table_numbers_with_decimals_are_right_aligned() -> None:
    lines = tables.table(["VM", "SECONDS", "MS"], [["a", 3.2, 241], ["b", 12.5, None]]).splitlines()
    assert lines == ["VM  SECONDS   MS", "a       3.2  241", "b      12.5    -"]


def test_table_column_without_any_value_is_below_its_title() -> None:
    lines = tables.table(["VM", "ADDRESS", "RESULT"], [["web1", None, "created"]]).splitlines()
    assert lines[0].index("ADDRESS") == lines[1].index("-")
