# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fleet.virt.preflight on two hypervisors with TLS: what is there is found, and nothing else."""

from __future__ import annotations

import base64
import json
import re
import shlex
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import trial_guest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.preflight.keys import Authority
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

ROLE = "fleet.virt.hypervisor"
SHOW = f"{ROLE} : Show the findings"
SOCKETS = "libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
PKI = "/etc/pki/libvirt"
# What these hosts are by nature, and no error
NATURE = {"kvm_missing", "kvm_not_offered", "iommu_off", "cpu_differs"}
ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - found out, not left


class Fleet:
    """hv1 and hv2 with keys of the test's own CA, TLS, and both pools."""

    def __init__(self, site: Laboratory, controller: Ansible) -> None:
        self.site = site
        self.controller = controller
        self.authority = Authority()

    def sh(self, host: str, command: str) -> str:
        return self.site.ssh(host, command).stdout

    def put(self, host: str, path: str, text: str, mode: str = "0644") -> None:
        folder = path.rpartition("/")[0]
        command = f"mkdir -p {folder} && umask 077 && cat > {path} && chmod {mode} {path}"
        self.site.ssh(host, command, input=text)

    def keys(self, host: str, *, named: bool = True, days: int = 365) -> None:
        """Keys for a host, which it answers with from its next start on."""
        addresses = [self.site.host(host).address] if named else []
        certificate, key = self.authority.issue(host, addresses, days)
        self.put(host, "/etc/pki/CA/cacert.pem", self.authority.certificate)
        for side in ("server", "client"):
            self.put(host, f"{PKI}/{side}cert.pem", certificate)
            self.put(host, f"{PKI}/private/{side}key.pem", key, "0600")

    def restart(self, host: str) -> None:
        self.sh(
            host,
            f"systemctl stop libvirtd libvirtd-tls.socket {SOCKETS};"
            f" systemctl start libvirtd-tls.socket {SOCKETS}",
        )

    def pools(self, host: str) -> None:
        for name, path in (("default", "images"), ("base", "base")):
            where = f"/var/lib/libvirt/{path}"
            self.sh(
                host,
                f"mkdir -p {where}; virsh -q pool-info {name} >/dev/null 2>&1 ||"
                f" virsh -q pool-define-as {name} dir --target {where};"
                f" virsh -q pool-start {name} 2>/dev/null; virsh -q pool-autostart {name}",
            )

    def preflight(self, *arguments: str, **variables: t.Any) -> tuple[Run, list[dict[str, t.Any]]]:
        """A run of the playbook, and its findings."""
        run = self.controller.playbook("preflight", variables, arguments)
        (result,) = run.of(SHOW).values()
        return run, t.cast("list[dict[str, t.Any]]", result["findings"])


@pytest.fixture(scope="module")
def fleet(site: Laboratory, controller: Ansible) -> Iterator[Fleet]:
    found = Fleet(site, controller)
    for host in ("hv1", "hv2"):
        found.keys(host)
        found.restart(host)
        found.pools(host)
    yield found
    for host in ("hv1", "hv2"):
        found.sh(host, f"rm -r /etc/pki; systemctl stop libvirtd-tls.socket {SOCKETS} libvirtd")
        found.sh(host, f"systemctl start {SOCKETS}")


def test_a_fleet_in_order(fleet: Fleet) -> None:
    run, findings = fleet.preflight(virt_output="json")
    assert run.returncode == 0, str(run)
    assert {one["id"] for one in findings} <= NATURE
    assert "kvm_missing" in {one["id"] for one in findings} or fleet.site.record.kvm
    result = run.of(SHOW)["hv1"]
    assert json.loads(result["output"]) == {
        "findings": findings,
        "summary": result["summary"],
        "cpus": result["cpus"],
    }
    (common,) = result["cpus"]
    assert common["hosts"] == ["hv1", "hv2"]
    documented = {key: value for key, value in result.items() if key != "_work"}  # of a stage
    assert undocumented("virt_preflight", documented) == []
    assert all(one["remedy"] and one["hosts"] for one in findings)
    looked = run.of(f"{ROLE} : Check every hypervisor")
    for host, peer in (("hv1", "hv2"), ("hv2", "hv1")):
        facts = looked[host]["facts"]
        assert facts["errors"] == {}
        address = fleet.site.host(peer).address
        assert facts["tls"] == {
            "missing": [],
            "anonymous": False,
            "peers": [{"name": peer, "address": address, "error": None}],
        }
        assert {"address": "::", "port": 16514, "process": "libvirtd"} in facts["listeners"]
        # one machine has one clock: what is measured has to be nothing
        clock = facts["clock"]
        assert abs(clock["offset"]) <= clock["uncertainty"] < 1
    baselines = run.of(f"{ROLE} : Compare the CPUs, and try the locks of shared pools").values()
    assert all(one["baseline"]["runs"] and not one["baseline"]["error"] for one in baselines)
    assert json.loads(json.dumps(looked["hv1"]["changed"])) is False


NEEDS_BR9 = (
    "<domain type='qemu'><name>needs-br9</name><memory>65536</memory><os><type>hvm</type></os>"
    "<devices><interface type='bridge'><source bridge='br9'/></interface></devices></domain>"
)
DISORDER = {
    "hv1": (
        "virsh -q pool-destroy base; virsh -q pool-autostart --disable default",
        "ip link add br8 type bridge; ip link add br9 type bridge; ip link set br9 up",
        "ip link add up9 type veth peer name far9; ip link set up9 master br9",
        "systemd-run -q --unit=plain python3 -c 'import socket, time;"
        ' s = socket.create_server(("", 16509)); time.sleep(1e6)\'',
        "systemd-run -q --unit=console qemu-system-x86_64 -S -display none"
        f" -nodefaults -vnc {ALL_INTERFACES}:7",
        f"chmod 0644 {PKI}/private/clientkey.pem",
        "ip link set br9 type bridge nf_call_iptables 1",
        "nft 'add table inet docker; add chain inet docker forward"
        " { type filter hook forward priority 0; policy drop; }'",
    ),
    "hv2": (
        f'echo "{NEEDS_BR9}" | virsh -q define /dev/stdin',
        "cp /etc/libvirt/libvirtd.conf /root/libvirtd.conf",
        "echo 'tls_no_verify_certificate = 1' >> /etc/libvirt/libvirtd.conf",
        "sed -i '/^host_uuid = /d' /etc/libvirt/libvirtd.conf",
    ),
}
ORDER = {
    "hv1": (
        "virsh -q pool-start base; virsh -q pool-autostart default",
        "ip link del br8; ip link del br9; ip link del up9",
        "systemctl stop plain console",
        f"chmod 0600 {PKI}/private/clientkey.pem",
        "nft delete table inet docker",
    ),
    "hv2": (
        "virsh -q undefine needs-br9",
        "cp /root/libvirtd.conf /etc/libvirt/libvirtd.conf",
    ),
}
# id, hosts and words of the message
PROVOKED = [
    ("pool_inactive", ["hv1"], "pool base is inactive"),
    ("pool_no_autostart", ["hv1"], "pool default does not start"),
    ("bridge_down", ["hv1"], "bridge br8 is down"),
    ("bridge_no_uplink", ["hv1"], "bridge br8 has no uplink"),
    ("bridge_uplink_down", ["hv1"], "bridge br9: no uplink is active (up9)"),
    ("bridge_unavailable", ["hv2"], "there is no bridge br8"),
    ("bridge_missing", ["hv2"], "there is no bridge br9"),
    ("libvirt_plain", ["hv1"], ":16509"),
    ("qemu_exposed", ["hv1"], f"{ALL_INTERFACES}:5907"),
    ("key_readable", ["hv1"], "clientkey.pem has mode 0644"),
    ("bridge_filtered", ["hv1"], "nftables chain inet docker forward"),
    ("libvirt_unverified", ["hv2"], "without a certificate"),
    ("tls_failed", ["hv1", "hv2"], "TLS to hv2"),
    ("uuid_made_up", ["hv2"], "is neither its firmware's"),
    ("key_expires", ["hv2"], "servercert.pem (CN=hv2) expires in 20 days"),
    ("pool_low", ["hv2"], "pool base has"),
]


# The commands of the guide, and what each prints
COMMANDS = {
    "ansible-playbook fleet.virt.preflight": r"0 error, \d warning, \d info",
    "ansible-playbook fleet.virt.preflight -e virt_output=json"
    " -e virt_output_file=preflight.json": r"changed: \[hv1\]",
    "ansible-playbook fleet.virt.preflight --limit hv2": r"\[host_not_asked\]",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, fleet: Fleet, tmp_path: Path) -> None:
    program, *words = shlex.split(command.replace("preflight.json", f"{tmp_path}/preflight.json"))
    run = fleet.controller.run(program, words).succeeded()
    assert re.search(COMMANDS[command], run.stdout), str(run)
    for file in tmp_path.glob("*.json"):
        assert json.loads(file.read_text())["summary"]["error"] == 0
        assert file.stat().st_mode & 0o777 == 0o600


def test_disorder_is_found(fleet: Fleet) -> None:
    fleet.keys("hv2", named=False, days=20)
    profiles = {"lan": {"eth0": {"bridge": "br8"}}, "dmz": [{"name": "eth0", "bridge": "br9"}]}
    try:
        for host, commands in DISORDER.items():
            for command in commands:
                fleet.sh(host, command)
        fleet.restart("hv2")
        run, findings = fleet.preflight(virt_nic_profiles=profiles, virt_min_free="4096TiB")
        assert run.returncode == 2
        for kind, hosts, words in PROVOKED:
            found = [one for one in findings if one["id"] == kind and words in one["message"]]
            assert found, f"{kind} was not found\n{run.of(SHOW)['hv1']['output']}"
            assert set(hosts) <= set(found[0]["hosts"]), found
            assert f"[{kind}]" in run.stdout
        kinds = {kind for kind, _hosts, _words in PROVOKED}
        assert {one["id"] for one in findings} - kinds <= NATURE | {"bridge_filtered"}
    finally:
        fleet.keys("hv2")
        for host, commands in ORDER.items():
            for command in commands:
                fleet.site.ssh(host, command, check=False)
        fleet.restart("hv2")


def test_limit_names_those_that_do_not_know_the_new_one(fleet: Fleet) -> None:
    """hv1's firewall does not know hv2 yet: warnings, so that the new one can be set up first."""
    drop = f"ip saddr {fleet.site.host('hv2').address} tcp dport 16514 drop"
    chain = "{ type filter hook input priority 0; }"
    table = f"add table inet shut; add chain inet shut input {chain}"
    fleet.sh("hv1", f"nft '{table}; add rule inet shut input {drop}'")
    try:
        run, findings = fleet.preflight("--limit", "hv2", virt_output="yaml")
        assert run.returncode == 0, str(run)
        by_id = {one["id"]: one for one in findings}
        assert by_id["tls_not_known"]["hosts"] == ["hv2", "hv1"]
        assert "no response within" in by_id["tls_not_known"]["message"]
        assert by_id["host_not_asked"]["hosts"] == ["hv1"]
        assert yaml.safe_load(run.of(SHOW)["hv2"]["output"])["findings"] == findings
    finally:
        fleet.sh("hv1", "nft delete table inet shut")


def test_without_libvirt_the_rest_is_looked_at(fleet: Fleet) -> None:
    options = {"uri": "qemu+unix:///system?socket=/nonexistent", "bridges": ["br0"]}
    found = fleet.controller.module("hv1", "virt_preflight", options)["hv1"]
    assert found["failed"], found
    assert "libvirt_silent" in {one["id"] for one in found["findings"]}, found["findings"]
    assert "cannot connect" in found["facts"]["errors"]["libvirt"]
    assert found["facts"]["bridges"][0]["up"]


def test_a_hypervisor_alone_is_judged_in_one_call(fleet: Fleet) -> None:
    found = fleet.controller.module("hv1", "virt_preflight", {})["hv1"]
    assert not found["failed"], found
    assert {one["id"] for one in found["findings"]} <= NATURE
    assert {host for one in found["findings"] for host in one["hosts"]} <= {"hv1"}
    assert found["summary"]["error"] == 0
    assert found["output"]
    told = {key: value for key, value in found.items() if key != "facts"}  # unjudged, and free
    assert undocumented("virt_preflight", told) == []
    found = fleet.controller.module("hv1", "virt_preflight", {"pools": ["nowhere"]})["hv1"]
    assert found["failed"], found
    assert "nowhere" in found["msg"]
    assert found["summary"]["error"] > 0
    # in the middle of a playbook what was found has been shown, and the failure is only why
    gate = {"fleet.virt.virt_preflight": {"pools": ["nowhere"], "_work": {"stage": "gate"}}}
    run = fleet.controller.play([gate], "hv1", become=True)
    assert run.returncode == 2, str(run)
    assert re.search(r"fatal: \[hv1\]: FAILED! => .*\"msg\": \"pool_missing", run.stdout), str(run)
    assert '"facts"' not in run.stdout, str(run)
    assert "> run ansible-playbook fleet.virt.setup_hypervisors --limit hv1" in run.stdout, str(run)


def test_a_hypervisor_that_is_cut_off_is_named(fleet: Fleet) -> None:
    fleet.site.cut("hv2")
    try:
        run, findings = fleet.preflight(virt_output="table")
    finally:
        fleet.site.heal("hv2")
    assert run.returncode != 0
    ids = {one["id"] for one in findings}
    assert "host_silent" in ids
    assert "tls_failed" not in ids, "a consequence"
    (silent,) = (one for one in findings if one["id"] == "host_silent")
    assert silent["hosts"] == ["hv2"]


def test_the_examples_run_as_written(fleet: Fleet) -> None:
    tasks = [example.task for example in documentation.examples("virt_preflight")]
    run = fleet.controller.play(tasks, "hypervisors", become=True).succeeded()
    assert {event.status for event in run.events} == {"ok"}


@pytest.mark.parametrize(("sector", "works"), [(trial_guest.SECTOR, True), (bytes(512), False)])
def test_the_trial_guest_runs_to_its_end(fleet: Fleet, sector: bytes, works: bool) -> None:
    """With the emulator, as KVM may not be there; a disk that does not boot is told from it."""
    encoded = base64.b64encode(sector).decode()
    argv = trial_guest.arguments("qemu-system-x86_64", "tcg", "/run/trial")
    command = f"echo {encoded} | base64 -d > /run/trial; timeout 5 {shlex.join(argv)}"
    done = fleet.site.ssh("hv1", command, check=False)
    found = trial_guest.outcome(done.returncode, done.stderr)
    assert (found["problem"] is None) is works, found
