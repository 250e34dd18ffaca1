# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hypervisor that answers libvirt's client as it likes harms nobody but itself."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _direct

_PROGRAM = Path(__file__).parents[1] / "_liar.py"
_DOCUMENT = """\
<node><domain type='test'>
  <name>honest</name><memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>
"""


@pytest.fixture
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[t.Any]:
    """Return a function that reads a liar of the test's kind, and an honest one beside it."""
    (tmp_path / "node.xml").write_text(_DOCUMENT, encoding="utf-8")
    words = [sys.executable, str(_PROGRAM), "0", request.param]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as liar:
        try:
            assert liar.stdout
            uri = f"qemu+tcp://127.0.0.1:{liar.stdout.readline().strip()}/system"
            hosts = {
                "hv1": {"virt_inventory_uri": uri},
                "hv2": {"virt_inventory_uri": f"test://{tmp_path}/node.xml"},
            }

            def answers(reader: _direct.Reader) -> dict[str, t.Any]:
                found = _direct.answers([*hosts], reader, {"hostvars": hosts}, seconds=60)
                honest = found.pop("hv2")
                assert [one["name"] for one in honest["domains"]] == ["honest"]
                return found["hv1"]

            yield answers
        finally:
            liar.terminate()


def _shown(answer: dict[str, t.Any]) -> str:
    entry = {"name": "hv1", "answered": True, "error": None, "domains": answer["domains"]}
    return tables.render("list", [entry]) + tables.render("query", [entry])


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ("bomb", "a document type declaration is not allowed"),
        ("deep", "cannot be parsed as XML"),
        ("escape", None),
        ("no xml", "cannot be parsed as XML"),
        ("number", None),
        ("template", None),
        ("well", None),
    ],
    indirect=["read"],
)
def test_a_domain_that_is_a_lie(read: t.Any, said: str | None) -> None:
    answer = read(_direct.domains((), addresses=True, storage=True))
    (domain,) = answer["domains"]
    assert said is None or said in domain["error"]
    shown = _shown(answer)
    assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ("garbage", "list domains: Unable to decode message payload"),
        ("flood", "its responses exceed 67108864 characters and were discarded"),
    ],
    indirect=["read"],
)
def test_an_answer_that_is_none(read: t.Any, said: str) -> None:
    """What cannot be read, and more than anybody has, is that hypervisor's silence."""
    assert said in read(_direct.domains((), addresses=False, storage=False))["msg"]
