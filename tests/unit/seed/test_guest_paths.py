# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where paths of a guest lead."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_paths

# Links have a target, all others are ""
TREE = {
    "/etc": "",
    "/etc/hosts": "",
    "/etc/link": "other",
    "/etc/other": "",
    "/usr": "",
    "/usr/lib": "",
    "/lib": "usr/lib",
    "/bin": "/usr/bin",
    "/usr/bin": "",
    "/root": "",
    "/root/.ssh": "../../../outside",
    "/srv": "/outside",
    "/opt": "/opt",
    "/home": "../usr/../etc",
}


def look(path: str) -> str | None:
    return TREE.get(path)


@pytest.mark.parametrize(
    ("path", "leads"),
    [
        ("/etc/hosts", "/etc/hosts"),
        ("/etc/new/deep/file", "/etc/new/deep/file"),
        ("/lib/new", "/usr/lib/new"),
        ("/bin/sh", "/usr/bin/sh"),
        ("/etc/link", "/etc/other"),
        ("/", "/"),
    ],
)
def test_inside(path: str, leads: str) -> None:
    assert guest_paths.resolved(path, look) == leads


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/root/.ssh/authorized_keys", r"/root/.ssh -> ../../../outside leads out of the guest"),
        ("/srv/file", r"/srv -> /outside leads to nothing in the guest"),
        ("/opt/x", r"/opt -> /opt leads in a loop"),
        ("/home/a", r"/home -> ../usr/../etc leads out of the guest"),
    ],
)
def test_links_to_outside_are_refused_by_name(path: str, words: str) -> None:
    with pytest.raises(PlanRefused, match=f"{path} cannot be written.*{words}"):
        guest_paths.resolved(path, look)
