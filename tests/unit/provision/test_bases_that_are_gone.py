# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images whose file is gone while libvirt still lists them: no VM gets an empty disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_base_images import (
    BaseImage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
    require_bases,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import (
    BaseName,
    Digest,
)

_NAME = BaseName(Digest("d" * 64), "a", "raw")
_THERE, _GONE = f"{'a' * 64}-there.qcow2", f"{'b' * 64}-gone.qcow2"


def test_what_libvirt_lists_and_is_not_there_is_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = "".join(
        f"<volume type='file'><name>{name}</name><capacity>4096</capacity>"
        f"<target><path>{tmp_path}/{name}</path></target></volume>"
        for name in (_THERE, _GONE)
    )
    node = tmp_path / "node.xml"
    node.write_text(
        f"<node><pool type='dir'><name>base</name><target><path>{tmp_path}</path></target>"
        f"{volumes}</pool></node>"
    )
    (tmp_path / _THERE).write_bytes(b"x")
    with connect(f"test://{node}", 10) as connection:
        read = placement_facts.read(connection, "base", str(tmp_path))
        assert read["images"] == [_THERE, _GONE]  # of another machine nobody can tell
        monkeypatch.setattr(Connection, "local", True)
        assert placement_facts.read(connection, "base", str(tmp_path))["images"] == [_THERE]


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        ({"name": "system", "image": "a.qcow2"}, "disk 'system': its image a.qcow2"),
        ({"name": "system", "image": "a.qcow2", "overlay": False}, "disk 'system': its image a"),
        ({"name": "cd", "device": "cdrom", "image": "a.iso"}, "disk 'cd': its image a.iso"),
    ],
)
def test_a_disk_is_made_of_its_image_or_not_at_all(disk: dict[str, object], words: str) -> None:
    vm = {"name": "web1", "seed": False, "disks": [disk, {"name": "data", "size": 8}]}
    (domain,), problems = many([vm], defaults=Defaults())
    assert problems == []

    def settings(base: BaseImage | None) -> BatchSettings:
        return BatchSettings("run", "hv1", {}, "base", images={str(disk["image"]): base})

    require_bases(domain.disks, settings(BaseImage(_NAME, "raw", f"/base/{_NAME}", 1)))
    with pytest.raises(PlanRefused, match=words) as refused:
        require_bases(domain.disks, settings(None))
    # which of these it is, nobody has looked at: what brought it may have been killed
    assert "it was not transferred, or was removed, or its folder is not mounted" in str(
        refused.value
    )
