# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses an image, by what is named on a host."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_users import users_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_file_users import (
    FileUser,
    References,
)

BASE = "/base/x.qcow2"


def lies(image: str) -> FileUser:
    return FileUser(f"{image} lies on it", None, image)


def domain(name: str, what: str = "") -> FileUser:
    return FileUser(f"used by {what}domain {name!r}", name)


def users(*named: tuple[str, FileUser]) -> list[str]:
    references = References({})
    for path, user in named:
        references.add(path, user)
    return users_of(references, BASE)


def test_nobody() -> None:
    assert users() == []
    assert users(("/base/y.qcow2", domain("web1"))) == []


def test_domains_through_their_overlays() -> None:
    found = users(
        (BASE, lies("/disks/a")),
        (BASE, lies("/disks/b")),
        ("/disks/a", domain("web1")),
        ("/disks/b", lies("/disks/b.snapshot")),
        ("/disks/b.snapshot", domain("db1")),
        ("/disks/b.snapshot", domain("db1", "snapshot 1 of ")),
    )
    assert found == ["domain 'db1'", "domain 'web1'", "snapshot 1 of domain 'db1'"]


def test_a_domain_itself() -> None:
    assert users((BASE, domain("web1"))) == ["domain 'web1'"]


def test_an_overlay_that_nobody_has() -> None:
    found = users((BASE, lies("/disks/a")), ("/disks/a", lies("/disks/b")))
    assert found == ["/disks/b, which no VM uses"]


def test_images_in_a_circle() -> None:
    """Nonsense, and not for us to say that nobody needs it."""
    found = users((BASE, lies("/disks/a")), ("/disks/a", lies(BASE)))
    assert found == ["images that back each other (/disks/a)"]
