# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's daemons on a real machine: all its shapes, what is left alone, and what is refused."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import autostart
from ansible_collections.fleet.virt.tests.integration import harness
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.lab.host import Host
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

DAEMON = "fleet.virt.virt_daemon"
WATCH = ("/etc/default", "/etc/systemd/system", "/etc/sysctl.d", "/etc/pki")
GUEST = "daemon1"
KEYS = {
    "ca.pem": "/etc/pki/CA/cacert.pem",
    "server.pem": "/etc/pki/libvirt/servercert.pem",
    "server.key": "/etc/pki/libvirt/private/serverkey.pem",
}


class Machine:
    """The machine, and what is asked of it."""

    def __init__(self, lab: Laboratory, ansible: Ansible, host: Host, folder: Path) -> None:
        self.lab = lab
        self.ansible = ansible
        self.name = host.name
        self.address = host.address
        self.folder = folder

    def sh(self, command: str) -> str:
        return self.lab.ssh(self.name, f"set -e\n{command}").stdout.strip()

    def main_pid(self, unit: str) -> str:
        return self.sh(f"systemctl show --property MainPID --value {unit}")

    def verify(self, expect_changed: bool = True, **options: Any) -> dict[str, Any]:
        done = harness.verify(
            self.ansible,
            self.lab,
            self.name,
            DAEMON,
            options,
            expect_changed=expect_changed,
            watch=WATCH,
            bare=(self.name,),
        )
        return done.real[self.name]

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        return self.ansible.module(self.name, DAEMON, options, check=check)[self.name]

    def ports(self) -> set[str]:
        shown = self.sh("ss --no-header --listening --tcp --numeric --processes")
        return set(re.findall(r":(\d+) .*libvirtd", shown)) - {"22"}

    def make_keys(self) -> None:
        """Keys of a CA of this test, at the places libvirt reads."""
        folder = self.folder

        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

        new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
        openssl(*new, "-subj", "/CN=test CA", "-keyout", "ca.key", "-out", "ca.pem")
        for name in ("server", "client"):
            request = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}")
            openssl(*request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
            (folder / f"{name}.ext").write_text(
                f"subjectAltName=IP:{self.address}\nkeyUsage=digitalSignature,keyEncipherment\n"
            )
            sign = ("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
            also = ("-days", "2", "-extfile", f"{name}.ext")
            openssl(*sign, *also, "-in", f"{name}.csr", "-out", f"{name}.pem")
        (folder / "tls").mkdir(exist_ok=True)
        for name, path in (("ca", "cacert"), ("client", "clientcert")):
            (folder / "tls" / f"{path}.pem").write_bytes((folder / f"{name}.pem").read_bytes())
        (folder / "tls" / "clientkey.pem").write_bytes((folder / "client.key").read_bytes())
        for name, path in KEYS.items():
            self.lab.ssh(
                self.name,
                f"mkdir -p $(dirname {path}); umask 077; cat > {path}",
                input=(folder / name).read_text(),
            )

    def remote(self) -> str:
        """What libvirt answers over TLS to somebody with a certificate of the CA."""
        uri = f"qemu+tls://{self.address}/system?pkipath={self.folder}/tls"
        done = subprocess.run(
            ["virsh", "-c", uri, "uri"], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def handshake(self, version: ssl.TLSVersion, ciphers: str | None = None) -> str | None:
        """The cipher that is agreed on with a client that knows these only; None if none is."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.folder / "tls" / "cacert.pem")
        context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        context.minimum_version = context.maximum_version = version
        if ciphers:
            context.set_ciphers(ciphers)
        plain = socket.create_connection((self.address, 16514), timeout=10)
        try:
            with plain, context.wrap_socket(plain) as tls:
                assert tls.recv(1) == b"\1", "the client is let in"
                return str((tls.cipher() or ("",))[0])
        except (ssl.SSLError, ConnectionResetError):
            return None


@pytest.fixture(scope="module")
def machine(
    lab: Laboratory, ansible: Ansible, bare_host: Host, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """A machine with libvirt as its packages leave it, afterwards without what this test left."""
    role = {
        "ansible.builtin.include_role": {"name": "fleet.virt.libvirtd", "tasks_from": "install"}
    }
    ansible.play([role], bare_host.name, become=True).succeeded()
    found = Machine(lab, ansible, bare_host, tmp_path_factory.mktemp("keys"))
    files = "/etc/libvirt/*.conf /etc/default/libvirt*"
    found.sh(
        f"sed -i '/BEGIN fleet.virt/,/END fleet.virt/d' {files}\n"
        "systemctl disable --now libvirtd-tls.socket 2>/dev/null; systemctl restart libvirtd"
    )
    yield found
    found.sh(f"rm -f {' '.join(KEYS.values())}")
    found.run()


def test_it_is_configured(machine: Machine) -> None:
    done = machine.verify(qemu_conf={"keepalive_interval": 10})
    assert done["shape"] == "sockets"
    assert done["listening"] is False
    assert "no keys yet: /etc/pki/CA/cacert.pem" in done["reason"]
    assert "restart libvirtd.service" in done["steps"]
    assert machine.ports() == set()
    shown = machine.sh("cat /etc/libvirt/qemu.conf")
    assert "migrate_tls_force = 1\n" in shown.partition("# END fleet.virt")[0]
    assert 'security_driver = "none"' in shown.partition("# END fleet.virt")[2], "the laboratory's"


def test_open_listeners_are_shut_and_named(machine: Machine) -> None:
    machine.sh(
        "printf 'listen_tcp = 1\\ntls_no_verify_certificate = 1\\n' >> /etc/libvirt/libvirtd.conf\n"
        "systemctl stop libvirtd; systemctl enable --now libvirtd-tcp.socket 2>/dev/null\n"
        "systemctl start libvirtd"
    )
    assert machine.ports() == {"16509"}
    done = machine.run(qemu_conf={"keepalive_interval": 10})
    assert done["overruled"] == [
        "/etc/libvirt/libvirtd.conf: listen_tcp = 1",
        "/etc/libvirt/libvirtd.conf: tls_no_verify_certificate = 1",
    ]
    assert "disable --now libvirtd-tcp.socket" in done["steps"]
    assert machine.ports() == set()
    machine.sh("sed -i '/^listen_tcp = 1/d; /^tls_no_verify.* = 1/d' /etc/libvirt/libvirtd.conf")


def test_with_keys_it_listens(machine: Machine) -> None:
    machine.make_keys()
    done = machine.verify(qemu_conf={"keepalive_interval": 10})
    assert done["listening"] is True
    assert machine.ports() == {"16514"}
    assert "error" not in machine.remote()


@pytest.mark.parametrize(
    "weak", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA", "DHE-RSA-AES256-GCM-SHA384"]
)
def test_weak_ciphers_are_refused(machine: Machine, weak: str) -> None:
    """Neither what lacks forward secrecy nor CBC with SHA-1, which GnuTLS takes by itself."""
    assert machine.handshake(ssl.TLSVersion.TLSv1_2, f"{weak}:@SECLEVEL=0") is None


def test_good_ciphers_are_agreed_on(machine: Machine) -> None:
    strong = "ECDHE-RSA-AES128-GCM-SHA256"
    assert machine.handshake(ssl.TLSVersion.TLSv1_2, strong) == strong
    assert machine.handshake(ssl.TLSVersion.TLSv1_3) == "TLS_AES_256_GCM_SHA384"


def test_names_of_clients(machine: Machine) -> None:
    assert machine.run(tls_allowed_dn_list=["CN=somebody"])["changed"]
    assert "error" in machine.remote()
    assert machine.run(tls_allowed_dn_list=["CN=cli*"])["changed"]
    assert "error" not in machine.remote()


def test_killed_while_the_socket_was_to_be_opened(machine: Machine) -> None:
    machine.sh("systemctl stop libvirtd.service libvirtd-tls.socket libvirtd.socket")
    done = machine.run(tls_allowed_dn_list=["CN=cli*"])
    assert done["changed"], done
    assert machine.ports() == {"16514"}
    assert not machine.run(tls_allowed_dn_list=["CN=cli*"])["changed"]


def test_one_that_had_failed_for_want_of_keys_begins_with_them(machine: Machine) -> None:
    """systemd starts a unit that failed too often only after its failure is forgotten."""
    key = KEYS["server.key"]
    limit = "/run/systemd/system/libvirtd.service.d/limit.conf"
    machine.sh(
        # it fails for good however long each start takes
        f"mkdir -p $(dirname {limit})\n"
        f"printf '[Unit]\\nStartLimitIntervalSec=3600\\nStartLimitBurst=5\\n' > {limit}\n"
        "systemctl daemon-reload\n"
        f"mv {key} {key}.away; systemctl stop libvirtd.service\n"
        "for turn in 1 2 3 4 5 6 7; do systemctl start libvirtd.service 2>/dev/null || true; done\n"
        f"mv {key}.away {key}; systemctl is-failed libvirtd.service"
    )
    try:
        done = machine.run(tls_allowed_dn_list=["CN=cli*"])
        assert done["changed"], done
        assert machine.ports() == {"16514"}
        assert not machine.run(tls_allowed_dn_list=["CN=cli*"])["changed"]
    finally:
        machine.sh(f"rm {limit}; systemctl daemon-reload")


def test_a_file_newer_than_the_daemon_is_read(machine: Machine) -> None:
    """As after a run that was killed between writing and beginning the daemon anew."""
    before = machine.main_pid("libvirtd.service")
    machine.sh("touch /etc/libvirt/qemu.conf")
    done = machine.run(tls_allowed_dn_list=["CN=cli*"])
    assert done["steps"] == ["restart libvirtd.service"]
    assert machine.main_pid("libvirtd.service") != before


def test_settings_that_libvirt_refuses_are_put_back(machine: Machine, guests: Guests) -> None:
    guests.define(machine.name, GUEST, start=True, nics=(), blank=True)
    pid = machine.sh(f"cat /run/libvirt/qemu/{GUEST}.pid")
    before = harness.state_of(machine.lab, machine.name, WATCH)["files"]
    done = machine.run(tls_allowed_dn_list=["CN=cli*"], qemu_conf={"keepalive_interval": "many"})
    assert done["failed"]
    assert "so they were rolled back" in done["msg"]
    assert "keepalive_interval" in done["msg"], done["msg"]
    after = harness.state_of(machine.lab, machine.name, WATCH)["files"]
    texts = [
        {p: e.get("sha256") for p, e in files.items() if p.startswith("/etc")}
        for files in (before, after)
    ]
    assert texts[0] == texts[1]
    assert machine.sh(f"cat /run/libvirt/qemu/{GUEST}.pid") == pid
    assert guests.state(machine.name, GUEST).startswith("running")
    assert machine.ports() == {"16514"}


def test_a_full_disk_leaves_no_half_of_the_settings(machine: Machine) -> None:
    """/etc/default, the last of the files, is on a file system without space."""
    machine.sh(
        "mkdir /run/kept; cp -a /etc/default/. /run/kept\n"
        "mount -t tmpfs -o size=256k full /etc/default; cp -a /run/kept/. /etc/default\n"
        "! cat /dev/zero > /etc/default/filling 2>/dev/null"
    )
    files = "sha256sum /etc/libvirt/*.conf; ls -A /etc/libvirt /etc/default"
    before = machine.sh(files), machine.main_pid("libvirtd.service")
    changes = {"qemu_conf": {"keepalive_interval": 11}, "shutdown_timeout": 77}
    try:
        done = machine.run(tls_allowed_dn_list=["CN=cli*"], **changes)
        assert "No space left on device; no setting was changed" in done["msg"], done
        assert (machine.sh(files), machine.main_pid("libvirtd.service")) == before
    finally:
        machine.sh("umount /etc/default; rm -r /run/kept")
    assert not machine.run(tls_allowed_dn_list=["CN=cli*"])["changed"]


def test_a_port_that_somebody_else_has_is_named(machine: Machine) -> None:
    machine.run(tls_allowed_dn_list=["CN=cli*"], listen=False)
    machine.sh(
        "systemd-run --quiet --unit=stranger python3 -c 'import socket, time;"
        ' s = socket.create_server(("", 16514)); time.sleep(600)\'\n'
        "for turn in $(seq 100); do ss -ltn | grep -q :16514 && break; sleep 0.1; done"
    )
    done = machine.run(tls_allowed_dn_list=["CN=cli*"])
    machine.sh("systemctl stop stranger.service")
    assert done["failed"]
    assert "16514): Address already in use" in done["msg"], done["msg"]
    assert machine.run(tls_allowed_dn_list=["CN=cli*"])["changed"]
    assert machine.ports() == {"16514"}


def test_refused(machine: Machine) -> None:
    """Everything that is wrong is said at once, in check mode too."""
    harness.refuse(
        machine.ansible,
        machine.lab,
        machine.name,
        DAEMON,
        {"qemu_conf": {"security_driver": "none", "max_fils": 1}},
        match="how guests are confined.*did you mean max_files|did you mean.*are confined",
        watch=WATCH,
        bare=(machine.name,),
    )


def test_leases(machine: Machine, guests: Guests) -> None:
    leases = {"lockspace": "/var/lib/libvirt/shared-leases"}
    guests.define(machine.name, GUEST, start=True, nics=(), blank=True)
    assert "lock_manager" in machine.run(**leases)["msg"]
    guests.virsh(machine.name, "destroy", GUEST)
    assert machine.run(**leases)["changed"]
    assert not machine.run(**leases)["changed"]
    guests.virsh(machine.name, "start", GUEST)
    assert machine.sh("ls /var/lib/libvirt/shared-leases | wc -l") == "1"
    lockd = machine.main_pid("virtlockd.service")
    assert lockd != "0"
    assert machine.run(**leases, qemu_conf={"keepalive_interval": 12})["changed"]
    assert machine.main_pid("virtlockd.service") == lockd, "it holds the leases of running guests"
    assert guests.state(machine.name, GUEST).startswith("running")
    assert "lock_manager" in machine.run()["msg"]
    guests.virsh(machine.name, "destroy", GUEST)
    assert machine.run()["changed"]


def test_a_daemon_that_opens_its_port_itself(machine: Machine) -> None:
    """``--listen``, as before systemd opened sockets for libvirt."""
    sockets = " ".join(f"libvirtd{end}.socket" for end in ("", "-ro", "-admin", "-tls", "-tcp"))
    machine.sh(
        f"systemctl disable --now {sockets} 2>/dev/null; systemctl stop libvirtd.service\n"
        f"systemctl mask {sockets} 2>/dev/null; systemctl start libvirtd.service"
    )
    try:
        done = machine.run()
        assert done["shape"] == "listen", done
        assert not machine.run()["changed"]
        assert machine.ports() == {"16514"}
        assert "error" not in machine.remote()
        assert machine.run(listen=False)["changed"]
        assert machine.ports() == set()
    finally:
        machine.sh(
            f"systemctl stop libvirtd.service; systemctl unmask {sockets} 2>/dev/null\n"
            "sed -i '/BEGIN fleet/,/END fleet/d' /etc/default/libvirtd"
        )
    assert machine.run()["shape"] == "sockets"
    assert machine.ports() == {"16514"}


def test_post_copy_is_predicted(machine: Machine) -> None:
    """The kernel is that of the machine the laboratory runs on: nothing is set there."""
    done = machine.run(check=True, postcopy=True)
    assert "write /etc/sysctl.d/60-fleet-virt-libvirtd.conf" in done["steps"]


def test_start_order_at_boot_is_switched_on_and_off(machine: Machine) -> None:
    """What the units do at a boot is in test_autostart."""
    shown = f"systemctl is-enabled {autostart.HOLD} {autostart.START} || true"
    machine.run()
    assert machine.verify(ordered_autostart=False)["steps"] == [
        f"disable {autostart.HOLD} {autostart.START}"
    ]
    assert machine.sh(shown).split() == ["disabled", "disabled"]
    machine.sh(f"echo damaged >> {autostart.PROGRAM}")
    assert machine.verify()["steps"] == [
        f"write {autostart.PROGRAM}",
        f"enable {autostart.HOLD} {autostart.START}",
    ]
    assert machine.sh(shown).split() == ["enabled", "enabled"]
    assert machine.sh(f"systemctl is-active {autostart.START} || true") == "inactive"
