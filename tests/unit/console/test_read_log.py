# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs of serial consoles: a guest's words, a hypervisor's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import (
    read_log as console_log,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    WantedLines,
    wanted_lines,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_serial_output as consoles,
)


def test_the_first_that_says_something(tmp_path: Path) -> None:
    empty, full, fifo = (tmp_path / name for name in ("empty", "full", "fifo"))
    empty.touch()
    full.write_bytes(b"x" * consoles.TAIL + b"end\xff\n")
    os.mkfifo(fifo)
    missing = str(tmp_path / "missing")
    path, text = consoles.first_log([missing, str(fifo), str(empty), str(full)])
    assert path == str(full)
    assert text.endswith("xend�\n")
    assert len(text) == consoles.TAIL
    assert consoles.first_log([missing, str(fifo), str(empty)]) == ("", "")


def test_what_was_said_since(tmp_path: Path) -> None:
    """Whole lines, each once; of a log that begins anew all."""
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nweb1 lo")
    text, read_to = consoles.lines_since(str(log), 0)
    assert text == "one\ntwo\n"
    assert consoles.lines_since(str(log), read_to) == ("", read_to)
    with log.open("ab") as file:
        file.write(b"gin:\n")
    text, read_to = consoles.lines_since(str(log), read_to)
    assert text == "web1 login:\n"
    log.write_bytes(b"again\n")
    assert consoles.lines_since(str(log), read_to) == ("again\n", 6)
    log.write_bytes(b"y" * (2 * consoles.TAIL) + b"\n")
    text, read_to = consoles.lines_since(str(log), 0)
    assert (len(text), read_to) == (consoles.TAIL, 2 * consoles.TAIL + 1)
    assert consoles.lines_since(str(tmp_path / "none"), 5) == ("", 0)


def test_what_is_followed_is_text() -> None:
    said = [{"name": "web1", "lines": ["\x1b[2Jgone"], "read_to": 7, "failed": False, "msg": None}]
    said.append({"name": "db1", "lines": [], "read_to": 0, "failed": True, "msg": "none"})
    assert report.followed({"consoles": said}) == (["web1 | \\x1b[2Jgone"], {"web1": 7})


def test_files_of_another_machine_are_not_read() -> None:
    with (
        connect("test:///default", 5) as connection,
        pytest.raises(FleetVirtError, match="files on the hypervisor"),
    ):
        console_log.read(connection, WantedLines(("test",), False, 3))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"names": ["a"], "lines": 0}, "0 is not a number of lines"),
        ({"names": ["a"], "lines": 2001}, "from 1 to 2000"),
        ({"names": [], "lines": 3}, "no VM is named"),
        ({"names": ["a"], "lines": 3, "follow": -1}, "-1 is not a time to follow"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        wanted_lines({"ignore_missing": False, **given})


def test_what_is_shown() -> None:
    found = [
        report.ConsoleOutput("web1", "hv1", ("login:", "\x1b[2Jgone")),
        report.ConsoleOutput("db1", "hv2", (), "it keeps no log", failed=True),
    ]
    shown = report.consoles_text(found, {"hv3": "it did not answer"})
    assert shown == (
        "web1 on hv1:\n  login:\n  \\x1b[2Jgone\ndb1 on hv2:\n  (it keeps no log)\n"
        "hv3: no answer: it did not answer\n"
    )
    assert report.problems(found, Selected.of(["web1", "db1", "db2"]), {}, {}) == [
        "db1 on hv2: it keeps no log",
        "on no hypervisor that answered: db2",
    ]
    assert report.problems(found, Selected.of(["x*", "web*"]), {}, {}) == [
        "db1 on hv2: it keeps no log",
        "no VM matches 'x*'; ansible-playbook fleet.virt.list shows the VMs",
    ]
    assert report.problems([], Selected.of([], ["shop"]), {}, {}) == [
        "no VM is in shop; ansible-playbook fleet.virt.query shows the groups of each"
    ]
