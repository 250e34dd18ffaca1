# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools by their folders: what is there is used, what is in the way is named."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools import plan as pool_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools.plan import (
    AUTOSTART,
    DEFINE,
    IDENTIFY,
    RECORD,
    START,
    ExistingPool,
    PoolFolder,
    RequestedPool,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.nfs_options import NfsSource

BASE = RequestedPool("base", "/srv/base")


@pytest.mark.parametrize(
    ("pools", "identified", "name", "steps"),
    [
        ([], False, "base", [DEFINE, START, AUTOSTART, IDENTIFY]),
        ([], True, "base", [DEFINE, START, AUTOSTART]),
        ([ExistingPool("base", "dir", "/srv/base", True, True)], True, "base", []),
        ([ExistingPool("isos", "dir", "/srv/base", True, True)], False, "isos", [IDENTIFY]),
        # what is below an unmounted file system is not its id
        (
            [ExistingPool("isos", "netfs", "/srv/base", False, True)],
            True,
            "isos",
            [START, IDENTIFY],
        ),
        (
            [ExistingPool("base", "dir", "/srv/base", False, False)],
            True,
            "base",
            [START, AUTOSTART],
        ),
        ([ExistingPool("x", "dir", "/srv", True, True)], True, "base", [DEFINE, START, AUTOSTART]),
    ],
)
def test_plan(pools: list[ExistingPool], identified: bool, name: str, steps: list[str]) -> None:
    folder = PoolFolder("an-id" if identified else None)
    assert pool_plan.plan(BASE, pools, folder) == (name, steps)


def test_a_pool_in_the_way_is_named() -> None:
    with pytest.raises(PlanRefused, match="pool base is at /mnt, not at /srv/base"):
        pool_plan.plan(BASE, [ExistingPool("base", "dir", "/mnt", True, True)], PoolFolder())
    with pytest.raises(PlanRefused, match="of type logical"):
        pool_plan.plan(BASE, [ExistingPool("vg", "logical", "/srv/base", True, True)], PoolFolder())


NFS = RequestedPool("vms", "/srv/vms", NfsSource("nas1", "/vms"), shared=True)


IS_NFS = ExistingPool("nas", "netfs", "/srv/vms", True, True, "nas1:/vms")
IS_DIR = ExistingPool("nas", "dir", "/srv/vms", True, True)
NOT_STARTED = ExistingPool("vms", "netfs", "/srv/vms", False, True, "nas1:/vms")
MADE = PoolFolder("a", ("a",), mounted=True)
ABSENT = PoolFolder(None, ("a",), absent="pool vms is not mounted on hv2")
OTHER = PoolFolder("b", ("a",), mounted=True, absent="pool vms is not mounted on hv2")


@pytest.mark.parametrize(
    ("pools", "folder", "steps"),
    [
        # libvirt mounts it when it starts, so nothing is known of its id before
        ([], PoolFolder(), [DEFINE, START, AUTOSTART, IDENTIFY, RECORD]),
        ([], PoolFolder("below"), [DEFINE, START, AUTOSTART, IDENTIFY, RECORD]),
        ([], ABSENT, [DEFINE, START, AUTOSTART]),
        ([NOT_STARTED], PoolFolder(), [START, IDENTIFY, RECORD]),
        ([NOT_STARTED], ABSENT, [START]),
        ([IS_NFS], PoolFolder(mounted=True), [IDENTIFY, RECORD]),
        ([IS_NFS], PoolFolder("a", mounted=True), [RECORD]),
        ([IS_NFS], MADE, []),
        # mounted by /etc/fstab
        ([IS_DIR], PoolFolder("a", mounted=True), [RECORD]),
        ([IS_DIR], MADE, []),
    ],
)
def test_shared_pool_gets_its_id_when_mounted(
    pools: list[ExistingPool], folder: PoolFolder, steps: list[str]
) -> None:
    assert pool_plan.plan(NFS, pools, folder)[1] == steps


@pytest.mark.parametrize("wanted", [NFS, RequestedPool("vms", "/srv/vms")])
@pytest.mark.parametrize("folder", [ABSENT, OTHER])
@pytest.mark.parametrize("existing", [IS_NFS, IS_DIR])
def test_recorded_pool_that_is_not_mounted_gets_no_other_id(
    wanted: RequestedPool, folder: PoolFolder, existing: ExistingPool
) -> None:
    with pytest.raises(PlanRefused, match="pool vms is not mounted on hv2"):
        pool_plan.plan(wanted, [existing], folder)


@pytest.mark.parametrize("pools", [[], [IS_DIR]])
@pytest.mark.parametrize("folder", [PoolFolder(), PoolFolder("a")])
def test_shared_pool_on_an_unmounted_folder_is_refused(
    pools: list[ExistingPool], folder: PoolFolder
) -> None:
    with pytest.raises(PlanRefused, match="nothing is mounted at /srv/vms; mount the shared"):
        pool_plan.plan(RequestedPool("vms", "/srv/vms", shared=True), pools, folder)


def test_nfs_pool_that_mounts_something_else_is_refused() -> None:
    other = ExistingPool("vms", "netfs", "/srv/vms", True, True, "nas2:/vms")
    with pytest.raises(PlanRefused, match="pool vms at /srv/vms mounts nas2:/vms, not nas1:/vms"):
        pool_plan.plan(NFS, [other], MADE)


def test_validate() -> None:
    asked = [{"name": "base", "path": "/srv/base/"}, {"name": "x", "path": "/srv/x"}]
    assert pool_plan.validate(asked) == [BASE, RequestedPool("x", "/srv/x")]
    source = {"server": "nas1", "export": "/vms", "version": "4.2", "options": []}
    assert pool_plan.validate([{"name": "vms", "path": "/srv/vms", "nfs": source}]) == [NFS]
    with pytest.raises(SpecError, match=r"pools\[0\].nfs: options: soft: a write"):
        pool_plan.validate(
            [{"name": "vms", "path": "/srv/vms", "nfs": {**source, "options": ["soft"]}}]
        )


@pytest.mark.parametrize(
    ("pools", "wanted"),
    [
        ([{"name": "a", "path": "srv"}], r"pools\[0\].path: 'srv' is not an absolute"),
        ([{"name": "a", "path": "/srv/../etc"}], r"pools\[0\].path"),
        ([{"name": "", "path": "/srv"}], r"pools\[0\].name"),
        ([{"name": "a/b", "path": "/srv"}], r"pools\[0\].name"),
        ([{"name": "a", "path": "/s"}, {"name": "b", "path": "/s/"}], r"pools\[1\].path: .*twice"),
        ([{"name": "a", "path": "/s"}, {"name": "a", "path": "/t"}], r"pools\[1\].name: .*twice"),
    ],
)
def test_validate_refuses(pools: list[dict[str, Any]], wanted: str) -> None:
    with pytest.raises(SpecError, match=wanted):
        pool_plan.validate(pools)
