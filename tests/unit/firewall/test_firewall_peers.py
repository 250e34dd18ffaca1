# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who the peers are, as a machine resolves them, and where its SSH connection comes from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall import effects as firewall
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall.plan import short

_FIND = (
    "from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall import effects;"
    "print(effects.controller_addresses())"
)


def test_what_is_resolved() -> None:
    found = firewall.resolve(["198.51.100.7", "2001:db8::/64", "localhost", "127.0.0.1"])
    assert [short(one) for one in found] == ["198.51.100.7", "2001:db8::/64"]


def test_every_unknown_name_is_told() -> None:
    with pytest.raises(SpecError) as error:
        firewall.resolve(["a.invalid", "198.51.100.7", "b.invalid"])
    assert [problem.path for problem in error.value.problems] == ["networks[0]", "networks[2]"]
    assert "set ansible_host to an address" in str(error.value)


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ("192.0.2.9 4242 192.0.2.1 22", "['192.0.2.9']"),
        ("fe80::1%eth0 4242 fe80::2%eth0 22", "['fe80::1']"),
    ],
)
def test_the_connection_is_found_behind_sudo(connection: str, expected: str) -> None:
    """A process in between has the variable, ours has not, as with sudo."""
    inner = [sys.executable, "-c", _FIND]
    environment = {k: v for k, v in os.environ.items() if k != "SSH_CONNECTION"}
    outer = (
        f"import subprocess; subprocess.run({inner!r},"
        f" env={{'PYTHONPATH': {os.pathsep.join(sys.path)!r}}}, check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", outer],
        env={**environment, "SSH_CONNECTION": connection},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
