# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection that keeps others out while a daemon reads its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import (
    effects_reload as key_reload,
)

# Says where it was told to connect, and stays as virsh does
_VIRSH = """\
#!/bin/sh
echo "$@" >{words}
echo qemu:///system
exec cat
"""


@pytest.mark.parametrize("daemon", key_reload.DAEMONS)
def test_it_goes_to_the_socket_of_the_daemon_that_has_tls(
    daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirtd, or the proxy of modular daemons; qemu:///system would be virtqemud there."""
    words = tmp_path / "words"
    virsh = tmp_path / "virsh"
    virsh.write_text(_VIRSH.format(words=words))
    virsh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with key_reload.a_client(daemon, 10):
        uri = words.read_text().split()[-1]
    assert uri == "qemu+unix:///system?socket=/run/libvirt/libvirt-sock-ro"


def test_one_that_is_not_let_in_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virsh = tmp_path / "virsh"
    virsh.write_text("#!/bin/sh\necho 'error: failed to connect'\n")
    virsh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with (
        pytest.raises(
            FleetVirtError, match="libvirtd accepts no connections: error: failed to connect"
        ),
        key_reload.a_client("libvirtd", 10),
    ):
        raise AssertionError("nobody was let in")
