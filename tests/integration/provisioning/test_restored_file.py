# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of a guest comes to the controller, read by the real libguestfs of Debian 12 (hv1) and of
Debian 13 (hv2), slow without KVM.

Its VM needs a kernel and its modules, which hypervisors of the laboratory do not have: Debian's are
fetched first.
"""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support import backups
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder

from .conftest import Fleet
from .test_restore import FILE

pytestmark = pytest.mark.trials

_NAME = "filed1"
_AT = "2026-11-28T06:51:18Z"
_CONTENT = "# marker-of-the-guest"
_INSTALL = """
export DEBIAN_FRONTEND=noninteractive
command -v guestfish && exit
apt-get -q update && apt-get -qy install --no-install-recommends guestfish linux-image-cloud-amd64
"""
# As much of Debian as libguestfs needs to recognise it
_DISK = """
set -e
cd $(mktemp -d)
mkdir -p root/etc root/bin root/usr root/var root/proc
echo 12.5 > root/etc/debian_version
echo '{content}' > root/etc/fstab
ln -s ../etc/fstab root/var/linked
dd if=/dev/urandom of=root/var/large bs=1M count=2 status=none
mke2fs -q -t ext4 -d root /var/lib/libvirt/images/{name}.raw 24M
rm -r root
"""
_DOMAIN = """
<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='/var/lib/libvirt/images/{name}.raw'/><target dev='vda' bus='virtio'/></disk></devices>
</domain>
"""
_LEFT = (
    "ls -d /run/fleet-virt-* /var/tmp/libguestfs* 2>/dev/null; mount | grep borg; pgrep -a borg; :"
)


@pytest.fixture(params=["hv1", "hv2"])
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(fleet: Fleet, host: str, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "backup"
    folder.mkdir()
    fleet.lab.ssh(host, _INSTALL, timeout=900)
    fleet.host(host, _DISK.format(name=_NAME, content=_CONTENT))
    with shared_folder(fleet.lab, folder, backups.AT, [host]):
        define = f"cat > /run/d.xml <<'END'\n{_DOMAIN.format(name=_NAME)}END\n"
        fleet.host(host, f"{define}virsh -q define /run/d.xml")
        try:
            backups.save(fleet.lab, host, _NAME, _AT)
        finally:
            fleet.host(host, f"virsh -q undefine {_NAME}; rm /var/lib/libvirt/images/{_NAME}.raw")
        yield folder


def test_file_of_a_guest_that_is_gone_is_read_and_written_on_the_controller(
    fleet: Fleet, host: str, place: Path, tmp_path: Path
) -> None:
    alone = fleet.alone(host)
    variables = {
        "virt_backup_to": backups.AT,
        "virt_backup_read_from": str(place),
        "virt_backup_passphrase": backups.PASSPHRASE,
        "vm_name": _NAME,
        "virt_path": "/etc/fstab",
        "virt_restore_to": str(tmp_path / "fstab"),
    }
    file = tmp_path / "fstab"

    def run(*words: str, status: int = 0, **more: object) -> str:
        given = json.dumps({**variables, **more})
        program, *shown = shlex.split(FILE)
        done = alone.ansible.run(program, [*shown, *words, "-vvv", "-e", given], limit=900)
        assert done.returncode == status, str(done)
        assert "marker-of-the-guest" not in done.stdout + done.stderr + str(done.events)
        assert backups.PASSPHRASE not in str(done.events)
        return str(done)

    assert "would be written" in run("--check")
    assert not file.exists()
    assert " written " in run()
    assert file.read_text() == f"{_CONTENT}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert " unchanged " in run(virt_path="/var/linked")
    text = run(status=2, virt_path="/var/large", virt_restore_max_mib=1)
    assert "it must be a file of at most 1 MiB" in text
    file.write_text("somebody's")
    assert "refusing to overwrite it" in run(status=2)
    assert file.read_text() == "somebody's"
    (task,) = (example.task for example in documentation.examples("virt_restore_file"))
    options = {"name": _NAME, "dest": str(tmp_path / "example")}
    task["fleet.virt.virt_restore_file"].update(options)
    given = {"virt_backup_passphrase": backups.PASSPHRASE}
    alone.ansible.play([task], host, become=True, vars=given).succeeded()
    assert (tmp_path / "example").read_text() == f"{_CONTENT}\n"
    assert alone.host(host, _LEFT) == ""
