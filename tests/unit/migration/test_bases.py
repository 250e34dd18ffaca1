# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which base images have to be brought where VMs go, and who has them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    bases as migration_bases,
)

A, B = f"{'a' * 64}-debian12.qcow2", f"{'b' * 64}-data.raw"
TWIN = f"{'a' * 64}-bookworm.qcow2"  # the same content as A


def _vm(name: str, *backing: str | None) -> dict[str, Any]:
    return {"name": name, "disks": [{"backing": one} for one in backing], "media": []}


def _host(images: list[str] | None, *vms: dict[str, Any]) -> dict[str, Any]:
    return {"host": {"images": images}, "vms": list(vms)}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing moves": ({}, {"hv1": _host([A])}, {}),
    "it is there": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host([A], _vm("web1", f"/base/{A}")), "hv2": _host([A])},
        {},
    ),
    "it is lacking": (
        {"hv2": [("web1", "hv3")]},
        {"hv1": _host([A]), "hv2": _host([A, B], _vm("web1", f"/base/{A}")), "hv3": _host([B])},
        {"hv3": {A: ["hv2", "hv1"]}},
    ),
    "the destination has its content under another name": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host([A], _vm("web1", f"/base/{A}")), "hv2": _host([TWIN])},
        {"hv2": {A: ["hv1"]}},
    ),
    "a third has its content under another name": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host([A], _vm("web1", f"/base/{A}")), "hv2": _host([B]), "hv3": _host([TWIN, B])},
        {"hv2": {A: ["hv1", "hv3"]}},
    ),
    "both names of one content, each used": (
        {"hv1": [("web1", "hv2"), ("web2", "hv2")]},
        {
            "hv1": _host([A, TWIN], _vm("web1", f"/base/{A}"), _vm("web2", f"/base/{TWIN}")),
            "hv2": _host([TWIN]),
        },
        {"hv2": {A: ["hv1"]}},
    ),
    "two VMs and two disks, each image once": (
        {"hv1": [("web1", "hv2"), ("web2", "hv2")]},
        {
            "hv1": _host([A, B], _vm("web1", f"/base/{A}", f"/base/{B}"), _vm("web2", f"/x/{A}")),
            "hv2": _host([]),
        },
        {"hv2": {A: ["hv1"], B: ["hv1"]}},
    ),
    "it is in another pool, as on shared storage": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host(None, _vm("web1", f"/shared/{A}")), "hv2": _host([])},
        {},
    ),
    "whole disks, and files that are no base images": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host([], _vm("web1", None, "/images/mine.qcow2", f"/x/{A}.bak"))}
        | {"hv2": _host([])},
        {},
    ),
    "the medium of a drive": (
        {"hv1": [("web1", "hv2")]},
        {"hv1": _host([A, B], _vm("web1", f"/base/{A}") | {"media": [f"/base/{B}", "/x.iso"]})}
        | {"hv2": _host([A])},
        {"hv2": {B: ["hv1"]}},
    ),
    "it has arrived, and one end that is silent": (
        {"hv1": [("web1", "hv2"), ("web2", "hv9")], "hv9": [("web3", "hv1")]},
        {"hv1": _host([A], _vm("web2", f"/base/{A}")), "hv2": _host([], _vm("web1", f"/b/{A}"))},
        {},
    ),
}


def _emptied(vm: dict[str, Any]) -> dict[str, Any]:
    return {**vm, "media": []}


@pytest.mark.parametrize(("shares", "answers", "expected"), CASES.values(), ids=CASES.keys())
def test_what_is_lacking(
    shares: dict[str, Any], answers: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert migration_bases.lacking(shares, answers) == expected
    emptied = {
        host: {**answer, "vms": [_emptied(vm) for vm in answer["vms"]]}
        for host, answer in answers.items()
    }
    without = migration_bases.lacking(shares, answers, media=False)
    assert without == migration_bases.lacking(shares, emptied)


def test_what_virt_image_is_told() -> None:
    assert migration_bases.as_source(A) == {
        "digest": "a" * 64,
        "name": "debian12.qcow2",
        "format": "qcow2",
        "virtual_bytes": 0,
        "volume": A,
    }
    with pytest.raises(ValueError, match="is no base image"):
        migration_bases.as_source("debian12.qcow2")


@pytest.mark.parametrize(
    ("steps", "check", "line"),
    [
        ([], True, "already present"),
        ([], False, "already present"),
        (["copied from b"], False, "copied from b"),
        (["copied from b"], True, "would be copied from b"),
        (
            ["hv3 does not have it", "8 of 8 bytes (100 %) from hv1"],
            True,
            "hv3 does not have it; would be transferred: 8 of 8 bytes (100 %) from hv1",
        ),
        (["8 of 8 bytes (100 %) from hv1"], False, "8 of 8 bytes (100 %) from hv1"),
    ],
)
def test_outcome_in_check_mode_is_what_would_be_done(
    steps: list[str], check: bool, line: str
) -> None:
    assert migration_bases.outcome("a.qcow2", steps, check=check) == f"base image a.qcow2: {line}"
