# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file systems are this machine's own, by lists of mounts as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_systems as file_systems,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_file_systems import (
    kind_of,
)

_ROOT = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"


def mounted(point: bytes, kind: bytes) -> bytes:
    return _ROOT + b"40 22 0:50 / %s rw,relatime - %s somewhere rw\n" % (point, kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "gfs2", "ocfs2", "lustre"),
        *("fuse.glusterfs", "fuse.sshfs", "fuse.ceph-fuse", "fuse.juicefs", "fuse.rclone"),
        *("fuse.moosefs", "wekafs", "orangefs", "acfs", "pvfs2", "vmhgfs", "of-next-year", "fuse"),
    ],
)
def test_whatever_is_not_known_counts_as_shared(kind: str) -> None:
    found = kind_of(mounted(b"/pool", kind.encode()), "/pool/a")
    assert found == kind
    assert found not in file_systems._LOCAL


@pytest.mark.parametrize(
    "kind", ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "bcachefs"]
)
def test_local_ones(kind: str) -> None:
    assert kind_of(mounted(b"/pool", kind.encode()), "/pool") in file_systems._LOCAL


@pytest.mark.parametrize(
    ("point", "folder"),
    [
        (rb"/my\040disks", "/my disks"),
        (rb"/tab\011and\134backslash", "/tab\tand\\backslash"),
        ("/größe".encode(), "/größe"),
        (b"/gr\xf6\xdfe", os.fsdecode(b"/gr\xf6\xdfe")),  # no UTF-8
        (rb"/line\012break", "/line\nbreak"),
    ],
)
def test_mount_points_of_any_name(point: bytes, folder: str) -> None:
    mounts = mounted(point, b"nfs4")
    assert kind_of(mounts, f"{folder}/pool") == "nfs4"
    assert kind_of(mounts, folder) == "nfs4"
    assert kind_of(mounts, f"{folder}er/pool") == "ext4"


def test_a_mount_of_that_name_elsewhere_disturbs_nobody() -> None:
    assert kind_of(mounted(b"/gr\xf6\xdfe", b"nfs"), "/pool") == "ext4"


def test_the_nearest_mount_and_of_two_at_one_place_the_later_one_count() -> None:
    both = mounted(b"/pool", b"nfs4") + b"41 40 0:51 / /pool/fast rw - xfs /dev/sdb rw\n"
    assert kind_of(both, "/pool/fast/x") == "xfs"
    assert kind_of(both, "/pool/faster/x") == "nfs4"
    over = both + b"42 41 0:52 / /pool/fast rw master:3 - fuse.juicefs j rw\n"
    assert kind_of(over, "/pool/fast/x") == "fuse.juicefs"


def test_nothing_is_known_of_no_mounts() -> None:
    assert kind_of(b"", "/pool") is None
    assert kind_of(b"nonsense\n1 2 3 - ext4\n", "/pool") is None
    assert None not in file_systems._LOCAL


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/vms", True),
        ("/srv/vms/images", True),
        ("/srv/vms2", False),
        ("/srv", False),
        ("/with blank/x", True),
        ("/var/lib/libvirt/images", False),
    ],
)
def test_what_this_machine_exports_is_not_its_own_alone(path: str, expected: bool) -> None:
    exports = b"/srv/vms\t192.0.2.0/24(rw,sync,wdelay,hide)\n/with\\040blank\thv2.example(ro)\n\n"
    assert file_systems.is_exported(exports, path) is expected
    assert not file_systems.is_exported(b"", path)


def test_mount_of_nfs_has_the_options_of_the_file_system() -> None:
    mounts = (
        b"60 1 0:40 / /srv/vms rw,nosuid,nodev,noexec - nfs4 nas1:/vms rw,vers=4.2,hard\n"
        b"61 1 0:41 / / rw - ext4 /dev/vda1 rw\n"
    )
    found = file_systems.mount_of(mounts, "/srv/vms")
    assert found == file_systems.Mount("nfs4", "/srv/vms", ("rw", "vers=4.2", "hard"))
    assert file_systems.mount_of(b"60 1 0:40 / / rw - ext4", "/srv").options == ()


@pytest.mark.parametrize(
    ("kinds", "shared"),
    [
        (["ext4", "proc", "sysfs", "tmpfs", "cgroup2", "overlay"], False),
        (["ext4", "proc", "nfs4"], True),
        (["ext4", "of-next-year"], True),
    ],
)
def test_host_with_any_shared_file_system_has_shared_storage(
    kinds: list[str], shared: bool
) -> None:
    mounts = b"".join(mounted(b"/at", kind.encode()) for kind in kinds)
    found = set(file_systems.kinds(mounts)) - file_systems._LOCAL - file_systems._KERNEL
    assert bool(found) is shared


def test_host_that_exports_folders_has_shared_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "kinds", lambda _mounts: iter(["ext4", "proc"]))
    exports = tmp_path / "etab"
    monkeypatch.setattr(file_systems, "_EXPORTS", exports)
    assert not file_systems.has_shared()
    exports.write_bytes(b"\n")
    assert not file_systems.has_shared()
    exports.write_bytes(b"/srv/shared\t*(rw)\n")
    assert file_systems.has_shared()
