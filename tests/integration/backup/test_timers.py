# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers with the role's timer, each with its own systemd: both fire, one backs up."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support.ansible import PROGRAMS, Ansible
from ansible_collections.fleet.virt.tests.integration.support.backup_server import (
    OWN,
    SECRET,
    BackupServer,
)
from ansible_collections.fleet.virt.tests.integration.support.guests import CHECKOUT, Guests
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.host import Host

pytestmark = pytest.mark.trials

NAME = "nightly1"
_PROJECT, _VAULT = "/srv/fleet", "/root/.fleet-vault"
_SERVICE, _TIMER = "fleet-virt-backup.service", "fleet-virt-backup.timer"
# systemd fires timers within a minute, at another moment on each host, unless it is told
_AT_ONCE = f"""
mkdir -p /etc/systemd/system/{_TIMER}.d
printf '[Timer]\\nAccuracySec=1us\\n' > /etc/systemd/system/{_TIMER}.d/at-once.conf
"""
# Ansible is this machine's, but the vault needs a library that is compiled
_INSTALL = """
export DEBIAN_FRONTEND=noninteractive
python3 -c 'import cryptography' 2>/dev/null && exit
apt-get -q update && apt-get -qy install --no-install-recommends python3-cryptography
"""
_FILES = f"""
mkdir -p {_PROJECT}/inventory/group_vars; umask 077; cat > /run/files.json
python3 - <<'END'
import json
for path, text in json.load(open("/run/files.json")).items():
    open(path, "w").write(text)
END
rm /run/files.json
"""
_REMOVE = f"""
systemctl disable --now {_TIMER}; systemctl stop {_SERVICE}
rm -rf {_PROJECT} {_VAULT} /etc/systemd/system/fleet-virt-backup.* /root/.ansible
rm -rf /usr/local/sbin/fleet-virt-backup /root/.cache/fleet.virt /root/.local/state/fleet.virt
rm -f {OWN} {OWN}.pub; systemctl daemon-reload; systemctl reset-failed
"""


@dataclass(frozen=True)
class Controllers:
    """Two hosts that are controllers, of a fleet of hv2."""

    hosts: tuple[str, str]
    server: BackupServer

    def say(self, host: str, command: str) -> str:
        """What a command prints on a controller."""
        return self.server.guests.script(host, command)

    def set_up(self, on_calendar: str) -> None:
        """Apply the role as the guide shows it."""
        role = {
            "role": "fleet.virt.backup",
            "backup_project": _PROJECT,
            "backup_vault_password_file": _VAULT,
            "backup_command": str(PROGRAMS / "ansible-playbook"),
            "backup_on_calendar": on_calendar,
            "backup_randomized_delay": "0",
        }
        hosts = ",".join(self.hosts)
        self.server.ansible.play([], hosts, become=True, roles=[role]).succeeded()

    def fire(self) -> None:
        """Have both timers fire at one moment, which has not been when both are set."""
        for _try in range(5):
            moment = datetime.now(timezone.utc) + timedelta(seconds=30)
            self.set_up(f"{moment:%Y-%m-%d %H:%M:%S} UTC")
            if datetime.now(timezone.utc) < moment:
                return
        raise AssertionError("the timers are not set within 30 s")

    def shown(self, host: str, name: str) -> str:
        """A property of the service on a controller."""
        return self.say(host, f"systemctl show -P {name} {_SERVICE}").strip()

    def ended(self, host: str) -> str:
        """When the service ended that is not running."""
        idle = self.shown(host, "ActiveState") in ("inactive", "failed")
        return self.shown(host, "ExecMainExitTimestamp") if idle else ""

    def journal(self, host: str) -> str:
        """What the service has printed in its last run."""
        run = f"_SYSTEMD_INVOCATION_ID={self.shown(host, 'InvocationID')}"
        return self.say(host, f"journalctl --no-pager -o cat {run}")


@pytest.fixture
def controllers(
    guests: Guests, ansible: Ansible, bare_host: Host, tmp_path: Path
) -> Iterator[Controllers]:
    hosts = ("hv1", bare_host.name)
    server = BackupServer(guests, ansible, ("hv2",))
    server.begin(hosts)
    lab = guests.lab
    reached = yaml.safe_load((lab.inventory / "10-hypervisors.yml").read_text(encoding="utf-8"))
    there = reached["hypervisors"]["hosts"]["hv2"]
    fleet = {
        "hv2": {
            "ansible_host": there["ansible_host"],
            "ansible_user": there["ansible_user"],
            "ansible_ssh_private_key_file": f"{_PROJECT}/key",
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={_PROJECT}/known_hosts",
        }
    }
    variables = {
        "virt_backup_to": server.place,
        "virt_backup_ssh_key": OWN,
        "virt_keep": {"daily": 7},
        "virt_backup_passphrase": "{{ vault_backup_passphrase }}",
    }
    (tmp_path / "password").write_text("of the vault")
    (tmp_path / "vault.yml").write_text(json.dumps({"vault_backup_passphrase": SECRET}))
    words = ["--vault-password-file", str(tmp_path / "password"), str(tmp_path / "vault.yml")]
    subprocess.run([str(PROGRAMS / "ansible-vault"), "encrypt", *words], check=True)
    files = {
        f"{_PROJECT}/ansible.cfg": f"[defaults]\ncollections_path={PROGRAMS.parent}/collections\n",
        f"{_PROJECT}/key": lab.key.read_text(),
        f"{_PROJECT}/known_hosts": lab.known_hosts.read_text(),
        f"{_PROJECT}/inventory/hosts.json": json.dumps({"hypervisors": {"hosts": fleet}}),
        f"{_PROJECT}/inventory/group_vars/hypervisors.json": json.dumps(variables),
        f"{_PROJECT}/inventory/group_vars/all.yml": (tmp_path / "vault.yml").read_text(),
        _VAULT: "of the vault",
    }
    try:
        with shared_folder(lab, CHECKOUT, str(CHECKOUT), hosts):
            for host in hosts:
                guests.script(host, _INSTALL, limit=300)
                guests.script(host, f"{_FILES}{_AT_ONCE}", input=json.dumps(files))
            yield Controllers(hosts, server)
            for host in hosts:
                lab.ssh(host, _REMOVE, check=False)
    finally:
        server.end()


def test_timers_of_two_controllers_back_up_once(controllers: Controllers, guests: Guests) -> None:
    server, hosts = controllers.server, controllers.hosts
    guests.define("hv2", NAME, blank=True)
    controllers.set_up("*-*-* 02:00:00")
    controllers.fire()
    for host in hosts:
        wait_for(lambda host=host: controllers.ended(host), 400, f"the run on {host}", 2)
    journals = {host: controllers.journal(host) for host in hosts}
    begun = [
        controllers.say(
            host, f"systemctl show --timestamp=us+utc -P ExecMainStartTimestamp {_SERVICE}"
        )
        for host in hosts
    ]
    print("began at", begun)
    (winner,) = [host for host in hosts if f"{NAME}  hv2" in journals[host]]
    (other,) = [host for host in hosts if host != winner]
    assert re.search(rf"{NAME} +hv2 +saved +\S+ +shut off", journals[winner]), journals
    names = {host: controllers.say(host, "hostname").strip() for host in hosts}
    assert f"{names[winner]} has the turn since 20" in journals[other], journals
    statuses = [controllers.shown(host, "ExecMainStatus") for host in hosts]
    assert statuses == ["0", "0"], journals
    assert len(server.archives(NAME, "hv2")) == 1
    moments = [datetime.strptime(text.split()[2], "%H:%M:%S.%f") for text in begun]
    assert abs(moments[0] - moments[1]) < timedelta(seconds=2), begun

    for host in hosts:  # within the hours of the turn, whoever had it
        controllers.say(host, f"systemctl start {_SERVICE}")
        assert f"{names[winner]} has the turn since 20" in controllers.journal(host)
    assert len(server.archives(NAME, "hv2")) == 1
    server.guests.script("hv2", "systemctl stop backup-sshd.service")
    failed = guests.lab.ssh(other, f"systemctl start {_SERVICE}", check=False)
    assert failed.returncode, "a place that does not answer fails the service"
    assert controllers.say(other, f"systemctl is-failed {_SERVICE}").strip() == "failed"
    for text in (*journals.values(), controllers.journal(other)):
        assert SECRET not in text
