# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request is compared with the one a VM was made from."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import request
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)

_KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIISFKZORN6s68Y7QSAYATVaW7/MW11nJOj4UAWkhXyaT t",)


def _domain(**options: t.Any) -> Domain:
    base = {"name": "web1", "image": "debian.qcow2", **options}
    domain, problems = from_options(base, defaults=Defaults(ssh_public_keys=_KEYS))
    assert not problems, problems
    assert domain is not None
    return domain


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, [], id="the same"),
        pytest.param({}, {"start": False, "wait": False}, [], id="what only the run needs"),
        pytest.param({}, {"host": "hv1"}, [], id="where it was to be"),
        pytest.param({"memory": 1024}, {"memory": "1GiB"}, [], id="another way to write it"),
        pytest.param(
            {"memory": 512}, {"memory": 1024}, ["memory: requested 1024, is 512"], id="less"
        ),
        pytest.param(
            {},
            {"disks": [{"name": "data", "size": 10}]},
            ["disks.data: requested, is missing"],
            id="one disk more",
        ),
        pytest.param(
            {"disks": [{"name": "data", "size": 10}]},
            {},
            ["disks.data: not requested, exists"],
            id="one disk less",
        ),
        pytest.param(
            {"disks": [{"name": "data", "size": 10}]},
            {"disks": [{"name": "data", "size": 20}]},
            ["disks.data.size: requested 20, is 10"],
            id="a larger disk",
        ),
        pytest.param(
            {"nics": [{"name": "eth0", "bridge": "br0"}]},
            {"nics": [{"name": "eth0", "bridge": "br1"}]},
            ["nics.eth0.source: requested br1, is br0"],
            id="another bridge",
        ),
        pytest.param({}, {"title": "x"}, ["title: requested x, is none"], id="not given before"),
    ],
)
def test_differences(
    before: dict[str, t.Any], after: dict[str, t.Any], expected: list[str]
) -> None:
    kept = request.to_text(_domain(**before))
    assert request.differences(kept, _domain(**after)) == expected


def test_the_order_of_disks_matters() -> None:
    one, two = {"name": "a", "size": 1}, {"name": "b", "size": 1}
    kept = request.to_text(_domain(disk_profile="none", image=None, disks=[one, two]))
    found = request.differences(kept, _domain(disk_profile="none", image=None, disks=[two, one]))
    assert any("order requested b, a, is a, b" in line for line in found)


@pytest.mark.parametrize("kept", [None, "", "no json", "[]", "3"])
def test_a_request_that_cannot_be_read_is_a_difference(kept: str | None) -> None:
    assert len(request.differences(kept, _domain())) == 1


def test_a_change_records_what_was_written_and_no_disk_of_a_profile_that_is_not_there() -> None:
    """An adopted VM has disks of its own names, and the default profile has another."""
    theirs = [{"name": "vda", "size": 8}]
    kept = request.to_text(_domain(image=None, disk_profile="none", disks=theirs))
    wish = _domain(image=None, title="x", disks=[{"name": "data", "size": 10}])
    assert [one.name for one in wish.disks] == ["system", "data"]
    merged = json.loads(request.merged(kept, wish))
    assert [one["name"] for one in merged["disks"]] == ["vda", "data"]
    assert [one["name"] for one in merged["nics"]] == ["eth0"]
    assert (merged["title"], merged["memory"]) == ("x", 1024)
    assert not request.repeats(kept, wish)
    assert request.repeats(json.dumps(merged), wish)
    assert request.repeats(json.dumps(merged), _domain(image=None, title="x"))
    assert not request.repeats(json.dumps(merged), _domain(image=None, memory=512))


@pytest.mark.parametrize("kept", [None, "no json", "[]", "{}"])
def test_without_a_record_all_of_a_request_is_recorded(kept: str | None) -> None:
    merged = json.loads(request.merged(kept, _domain()))
    assert [one["name"] for one in merged["disks"]] == ["system"]
    assert request.repeats(kept, _domain()) is (kept == "{}")


def test_secrets_are_not_kept() -> None:
    domain = _domain(console={"type": "vnc", "password": "s3cret"})
    assert "s3cret" not in request.to_text(domain)


def test_what_an_older_version_did_not_know_is_no_difference() -> None:
    assert request.differences('{"name": "web1"}', _domain()) == []
