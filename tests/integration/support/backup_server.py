# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of backups in a laboratory, with an sshd of its own, as the guide sets it up.

The keys of hypervisors have the command that the guide forces; the controller has the folder. With
the second key of a hypervisor the server takes a while to answer: so long a backup is at work, and
something else can be done to its VM.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .ansible import Ansible, Run
from .guests import Guests
from .shared_folder import inside
from .waiting import wait_for

SECRET = "marker-of-the-passphrase"  # noqa: S105
PLACE = "/srv/backup-test"
SLOW = "/root/.ssh/slow"
OWN = "/root/.ssh/controller"
KEEPING = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "keeping_backups.rst"
_SECONDS = 12
_PORT = 2222
_UNIT = "backup-sshd.service"
_FOLDER = "/srv/backup-sshd"
_BEGIN = f"""
mkdir -p -m 700 {PLACE} {_FOLDER}
mount -t tmpfs -o size={{mib}}m,mode=700 backup {PLACE}
cat > {_FOLDER}/config <<END
Port {_PORT}
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile {_FOLDER}/keys
PermitRootLogin {{root}}
PasswordAuthentication no
PidFile none
{{settings}}
END
cat > {_FOLDER}/keys
systemd-run --quiet --collect --unit={_UNIT} /usr/sbin/sshd -D -e -f {_FOLDER}/config
"""
_END = f"""
systemctl stop {_UNIT}; pkill -x borg
umount -l {PLACE}; rm -rf {PLACE} {_FOLDER}
"""
# What a backup leaves on a hypervisor, if it does
_LEFT = f"""
set +e
for vm in $(virsh list --name); do virsh backup-dumpxml $vm 2>/dev/null; done
ls -d /run/fleet-virt/backup-*/ 2>/dev/null
ls /var/lib/fleet-virt/scratch 2>/dev/null
ls /var/lib/libvirt/qemu/domain-*/fleet-virt-backup.sock 2>/dev/null
mount | grep /run/fleet-virt/
pgrep -l '^(borg|qemu-storage-d)'
systemctl list-units --all --no-legend 'fleet-virt-backup*' 'fleet-virt-thaw*'
ls -d {PLACE}/*/lock.* /var/cache/fleet-virt/borg/.cache/borg/*/lock.* 2>/dev/null
true
"""
_EACH = """bash -c 'f=$(mktemp); cat > $f
set -- $(sha256sum < $f) $(grep -ac "$0" $f) $(grep -ac "$1" $f)
echo "$TAR_FILENAME $1 $3 $4"; rm $f'"""


def _guide(pattern: str) -> str:
    found = re.search(pattern, KEEPING.read_text(), re.MULTILINE)
    assert found is not None, pattern
    return found[1]


class BackupServer:
    """The place of backups, on hv2, which holds so many MiB; ``hosts`` are the hypervisors that use
    it."""

    def __init__(
        self, guests: Guests, ansible: Ansible, hosts: tuple[str, ...], mib: int = 512
    ) -> None:
        self.guests, self.ansible, self.hosts, self.mib = guests, ansible, hosts, mib
        self.address = guests.script("hv2", "hostname -I").split()[0]
        near = f"/proc/{inside(guests.lab.host('hv2').leader)}/root{PLACE}"
        self.variables: dict[str, Any] = {
            "virt_backup_to": self.place,
            "virt_backup_read_from": near,
            "virt_backup_passphrase": SECRET,
        }

    @property
    def place(self) -> str:
        """As hypervisors are told it."""
        return f"ssh://root@{self.address}:{_PORT}{PLACE}"

    def begin(self, controllers: Sequence[str] = ()) -> None:
        """Have the server, and the keys of hypervisors and of ``controllers``."""
        forced = _guide(r'^ +command="([^"]+)",restrict ').replace("/srv/backup", PLACE)
        settings = _guide(r"^ +(ClientAlive\w+ \d+\n +ClientAlive\w+ \d+)$")
        root = "prohibit-password" if controllers else "forced-commands-only"
        keys = ""
        for host in self.hosts:
            plain, slow = self.guests.script(
                host,
                "mkdir -p -m 700 /root/.ssh; cd /root/.ssh\n"
                "[ -f id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f id_ed25519\n"
                f"[ -f {SLOW} ] || ssh-keygen -q -t ed25519 -N '' -f {SLOW}\n"
                f"cat id_ed25519.pub {SLOW}.pub",
            ).splitlines()
            keys += f'command="{forced}",restrict {plain}\n'
            keys += f'command="sleep {_SECONDS}; {forced}",restrict {slow}\n'
        for host in controllers:
            made = f"[ -f {OWN} ] || ssh-keygen -q -t ed25519 -N '' -f {OWN}; cat {OWN}.pub"
            keys += f"restrict {self.guests.script(host, f'mkdir -p -m 700 /root/.ssh; {made}')}"
        self.guests.script(
            "hv2", _BEGIN.format(mib=self.mib, settings=settings, root=root), input=keys
        )
        for host in {*self.hosts, *controllers}:
            known = f"ssh-keyscan -p {_PORT} -t ed25519 {self.address} 2>/dev/null"
            wait_for(
                lambda host=host, known=known: self.guests.script(
                    host, f"{known} | tee -a /root/.ssh/known_hosts"
                ),
                20,
                "the key of the server",
            )
        for host in self.hosts:
            self.guests.script(host, "mkdir -p /var/lib/fleet-virt/scratch")

    def end(self) -> None:
        """Have no server."""
        self.guests.lab.ssh("hv2", _END, check=False)
        for host in self.hosts:
            keys = f"rm -f {SLOW}* /root/.ssh/id_ed25519*"
            known = f"sed -i '/:{_PORT} /d' /root/.ssh/known_hosts"
            self.guests.script(host, f"{keys}; {known}; rm -rf /var/cache/fleet-virt/borg")

    def backup(self, *names: str, status: int = 0, **more: str) -> Run:
        """Back VMs up."""
        variables = {**self.variables, "virt_names": ",".join(names), **more}
        done = self.ansible.playbook("backup", variables, args=["-vv"], limit=300)
        assert done.returncode == status, done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done

    def wait_begun(self, host: str, name: str) -> None:
        """Wait until libvirt has the job of a backup."""
        begun = f"virsh backup-dumpxml {name} >/dev/null 2>&1 && echo yes || true"
        wait_for(lambda: self.guests.script(host, begun).strip(), 60, f"job of {name}")

    def borg(self, *words: str, host: str = "hv2", check: bool = True) -> str:
        """What borg prints on a host."""
        script = f"exec 9< <(printf {SECRET}); BORG_PASSPHRASE_FD=9 borg {shlex.join(words)}"
        script = f"export BORG_RELOCATED_REPO_ACCESS_IS_OK=yes\nbash -c {shlex.quote(script)}"
        return self.guests.lab.ssh(host, script, check=check).stdout

    def repository(self, name: str, host: str) -> str:
        """The folder of a VM's repository."""
        return f"{PLACE}/{self.guests.virsh(host, 'domuuid', name).strip()}"

    def archives(self, name: str, host: str) -> list[str]:
        """The archives of a VM."""
        repository = self.repository(name, host)
        if not self.guests.script("hv2", f"ls -d {repository} 2>/dev/null || true"):
            return []
        return self.borg("list", "--short", repository).split()

    def read_back(self, name: str, host: str, archive: str, *texts: str) -> dict[str, list[str]]:
        """Of each file in an archive its digest, and how many of its lines have each text."""
        where = f"{self.repository(name, host)}::{archive}"
        each = f"{_EACH} {shlex.join(texts)}"
        tar = f"borg export-tar {where} - | tar -x --to-command={shlex.quote(each)}"
        script = f"exec 9< <(printf {SECRET}); BORG_PASSPHRASE_FD=9 {tar}"
        printed = self.guests.script("hv2", f"bash -c {shlex.quote(script)}")
        return {line.split()[0]: line.split()[1:] for line in printed.splitlines()}

    def require_nothing_left(self) -> None:
        """No job, no unit, no file, no process, no lock; the guests' disks have no errors."""
        script = self.guests.script
        for host in self.hosts:
            left: list[str] = []

            def is_empty(there: str = host, seen: list[str] = left) -> bool:
                seen[:] = script(there, _LEFT).split()
                return not seen

            try:
                wait_for(is_empty, 30, f"the end on {host}")
            except AssertionError:
                raise AssertionError(f"left on {host}: {left}") from None
            for name in self.guests.virsh(host, "list", "--name").split():
                errors = self.guests.virsh(host, "domblkerror", name)
                assert not errors.replace("No errors found", "").strip()
