# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role firewall on bare hosts: who gets in is measured by real connections.

hv1 is a peer, hv2 a stranger; hv3 (Debian 12, root) and hv4 (Debian 13, sudo) have the firewalls.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.documented import undocumented
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

README = Path(__file__).resolve().parents[3] / "roles" / "firewall" / "README.md"
LIBVIRT = (16514, 49152, 49215)
SITE = 5000  # the site lets everybody in here
EVERY = (22, SITE, *LIBVIRT)
SSH_AND_SITE = {22, SITE}

_LISTEN = (
    "import socket, time; kept = [socket.create_server(('', port)) for port in"
    f" {(SITE, *LIBVIRT)}]; time.sleep(1e6)"
)
_UNIT = (
    f'[Service]\nExecStart=/usr/bin/python3 -c "{_LISTEN}"\n[Install]\nWantedBy=multi-user.target\n'
)
_PROBE = """
import json, socket, sys
address, ports = sys.argv[1], json.loads(sys.argv[2])
found = []
for port in ports:
    try:
        socket.create_connection((address, port), 0.7).close()
        found.append(port)
    except OSError:
        pass
print(json.dumps(found))
"""
_RULESET = """\
#!/usr/sbin/nft -f
# the site's own
flush ruleset

table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		ct state invalid drop
		iif "lo" accept
		tcp dport { 22, 5000 } accept
	}
}
"""
# What the firewall says of itself, and its files: nothing of it may change in check mode
_STATE = """
nft list ruleset
cat /etc/nftables.conf /etc/ufw/*.rules /etc/firewalld/zones/*.xml 2>&1
echo; echo ==ours==
cat /etc/fleet-virt/firewall.nft 2>&1
"""


@dataclass(frozen=True)
class Firewall:
    """One backend on one host: how the site has set it up."""

    name: str
    host: str
    up: str
    down: str


FIREWALLS = (
    Firewall(
        "nftables",
        "hv3",
        f"cat > /etc/nftables.conf <<'END'\n{_RULESET}END\nsystemctl enable --now nftables",
        "systemctl disable --now nftables; nft flush ruleset",
    ),
    Firewall(
        "ufw",
        "hv3",
        "systemctl enable ufw; ufw allow 22/tcp; ufw allow 5000/tcp; ufw --force enable",
        "ufw --force disable; ufw --force reset; systemctl disable ufw; nft flush ruleset",
    ),
    Firewall(
        "firewalld",
        "hv4",
        "systemctl enable --now firewalld; firewall-cmd --permanent --add-port=5000/tcp;"
        " firewall-cmd --add-port=5000/tcp",
        "systemctl disable --now firewalld",
    ),
)


class Bench:
    """A host with a firewall, with somebody listening behind it."""

    def __init__(self, site: Laboratory, controller: Ansible, host: str) -> None:
        self.site = site
        self.controller = controller
        self.host = host

    def address(self, name: str) -> str:
        return self.site.host(name).address

    def sh(self, command: str) -> str:
        return self.site.ssh(self.host, command, timeout=120).stdout

    def state(self) -> str:
        text = self.site.ssh(self.host, _STATE, check=False).stdout
        return re.sub(r"counter packets \d+ bytes \d+", "counter", text)

    def open_to(self, name: str, ports: t.Sequence[int] = EVERY) -> set[int]:
        """The ports that a host (None: this machine) really reaches."""
        argv = ["/usr/bin/python3", "-", self.address(self.host), json.dumps(list(ports))]
        return set(json.loads(self.site.ssh(name, argv, input=_PROBE).stdout))

    def open_to_controller(self) -> set[int]:
        found = set()
        for port in EVERY:
            try:
                socket.create_connection((self.address(self.host), port), 0.7).close()
            except OSError:
                continue
            found.add(port)
        return found

    def run(self, *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        found = self.controller.module(self.host, "virt_firewall", options, check=check, diff=True)[
            self.host
        ]
        assert not found["failed"], found
        return found

    def listening(self) -> None:
        address = (self.address(self.host), SITE)

        def answers() -> bool:
            try:
                socket.create_connection(address, 0.5).close()
            except OSError:
                return False
            return True

        wait_for(answers, 20, f"the listener of {self.host}")


@pytest.fixture(scope="module")
def hosts(site: Laboratory) -> Laboratory:
    """Both bare hosts with their packages and a listener, that comes back after a reboot."""
    install = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install"
    for name, packages in (("hv3", "nftables ufw"), ("hv4", "firewalld")):
        site.ssh(name, f"{install} {packages}", timeout=180)
        unit = f"cat > /etc/systemd/system/listen.service <<'END'\n{_UNIT}END\n"
        site.ssh(name, f"{unit}systemctl enable --now listen")
    site.ssh("hv3", "systemctl disable --now ufw; nft flush ruleset")
    site.ssh("hv4", "systemctl disable --now firewalld")
    return site


@pytest.fixture(params=FIREWALLS, ids=lambda one: one.name)
def firewall(
    request: pytest.FixtureRequest, hosts: Laboratory, controller: Ansible
) -> Iterator[tuple[Firewall, Bench]]:
    """Each firewall in turn, as a site has it before."""
    chosen: Firewall = request.param
    bench = Bench(hosts, controller, chosen.host)
    bench.sh(chosen.up)
    yield chosen, bench
    bench.sh(chosen.down)


@pytest.fixture
def bare(hosts: Laboratory, controller: Ansible) -> Bench:
    """hv3, which has nft and no rules."""
    return Bench(hosts, controller, "hv3")


class Session:
    """A login that is open all the time, and must not be cut."""

    def __init__(self, bench: Bench) -> None:
        command = [*bench.site.login(bench.host), "--", "cat"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.alive()

    def alive(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("still here\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "still here\n"

    def close(self) -> None:
        self.alive()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(10) == 0
        self.process.stdout.close()


def theirs(state: str, *addresses: str) -> list[str]:
    """The lines of a state that are the site's: without the marks, addresses and frames of ours."""
    ours = "|".join(["fleet", "-16514", *map(re.escape, addresses), "<port ", "<accept", "</rule>"])
    lines = state.partition("==ours==")[0].splitlines()
    return [line for line in lines if line.strip(" \t}") and not re.search(ours, line)]


def test_peers_get_in_and_nobody_else(firewall: tuple[Firewall, Bench]) -> None:
    chosen, bench = firewall
    peer, stranger = bench.address("hv1"), bench.address("hv2")
    for name in ("hv1", "hv2"):
        assert bench.open_to(name) == SSH_AND_SITE
    untouched = bench.state()
    session = Session(bench)

    predicted = bench.run(check=True, networks=[peer])
    assert predicted["changed"]
    assert bench.state() == untouched
    real = bench.run(networks=[peer])
    session.alive()
    assert (real["backend"], real["peers"]) == (chosen.name, [peer])
    same = ("changed", "backend", "peers", "rules", "note", "diff")
    assert {key: real[key] for key in same} == {key: predicted[key] for key in same}
    assert undocumented("virt_firewall", real) == []
    assert bench.open_to("hv1") == set(EVERY)
    assert bench.open_to("hv2") == SSH_AND_SITE
    for check in (False, True):
        assert not bench.run(check=check, networks=[peer])["changed"]

    # another list of peers: only our rules change
    changed = bench.run(networks=[stranger])
    assert changed["changed"]
    assert bench.open_to("hv1") == SSH_AND_SITE
    assert bench.open_to("hv2") == set(EVERY)
    assert theirs(bench.state(), peer, stranger) == theirs(untouched, peer, stranger)
    session.close()
    bench.site.kill(bench.host)
    bench.site.start(bench.host)
    bench.listening()
    assert bench.open_to("hv1") == SSH_AND_SITE
    assert bench.open_to("hv2") == set(EVERY)
    assert not bench.run(networks=[stranger])["changed"]

    closed = bench.run(networks=[])
    assert (closed["changed"], closed["rules"]) == (True, [])
    assert bench.open_to("hv2") == SSH_AND_SITE
    if chosen.name == "nftables":
        assert bench.sh("cat /etc/nftables.conf") == _RULESET
        assert "fleet" not in bench.sh("nft list ruleset; ls /etc/fleet-virt")


def test_the_role_lets_in_the_group_and_the_controller(
    hosts: Laboratory, controller: Ansible, tmp_path: Path
) -> None:
    """As the README shows it, as a user with sudo."""
    chosen = FIREWALLS[2]
    bench = Bench(hosts, controller, chosen.host)
    bench.sh(chosen.up)
    (shown,) = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (play,) = yaml.safe_load(shown)
    path = tmp_path / "site.yml"
    # the group is who gets in; the host with the firewall is none of it
    path.write_text(yaml.safe_dump([{**play, "hosts": chosen.host}]), encoding="utf-8")
    try:
        run = controller.playbook(str(path), diff=True).succeeded()
        assert f"{chosen.host}                        : ok=3    changed=1" in run.stdout, str(run)
        assert bench.open_to("hv1") == bench.open_to("hv2") == set(EVERY)
        assert bench.open_to_controller() == set(EVERY)
        assert bench.open_to("hv3") == SSH_AND_SITE
        again = controller.playbook(str(path), diff=True).succeeded()
        assert "changed=0" in again.stdout
        variables: dict[str, t.Any] = {"firewall_peer_networks": []}
        controller.playbook(str(path), variables).succeeded()
        assert bench.open_to("hv1") == SSH_AND_SITE
    finally:
        bench.sh(chosen.down)


def test_where_there_is_no_firewall_nothing_is_made_up(bare: Bench) -> None:
    before = bench_rules(bare)
    found = bare.run(networks=["198.51.100.0/24"])
    assert (found["changed"], found["rules"], found["backend"]) == (False, [], "nftables")
    assert "nothing to open" in found["note"]
    assert bench_rules(bare) == before == ""
    assert bare.open_to("hv2") == set(EVERY)


def bench_rules(bench: Bench) -> str:
    return bench.sh("nft list ruleset")


_INPUT = "add chain {table} {chain} {{ type filter hook input priority 0; policy drop; }}"
# how the input is shut, and words of the error
REFUSED = {
    "not loaded at boot": ("inet x", "input", "systemctl enable nftables.service"),
    "of iptables": ("ip filter", "INPUT", "the chain INPUT of iptables drops"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_remedy(case: str, bare: Bench) -> None:
    """SSH is let in by a rule of its own, before the policy drops anything."""
    table, chain, words = REFUSED[case]
    script = [f"add table {table}", _INPUT.format(table=table, chain=chain)]
    script.append(f"add rule {table} {chain} tcp dport 22 accept")
    script.append(f"add rule {table} {chain} ct state established accept")
    bare.site.ssh("hv3", ["nft", "-f", "-"], input="\n".join(script) + "\n")
    try:
        before = bare.state()
        for check in (True, False):
            options = {"networks": [bare.address("hv1")]}
            found = bare.controller.module("hv3", "virt_firewall", options, check=check)["hv3"]
            assert found["failed"]
            assert words in found["msg"]
        assert bare.state() == before
    finally:
        bare.sh("nft flush ruleset")


def test_wrong_input(bare: Bench) -> None:
    """What is no name in this network; the rest is judged in tests/unit/firewall/test_plan.py."""
    options = {"networks": ["no.such.host.invalid"]}
    found = bare.controller.module("hv3", "virt_firewall", options)["hv3"]
    assert found["failed"]
    assert "'no.such.host.invalid' is not an address" in found["msg"]


def test_it_is_quick(bare: Bench) -> None:
    """A second run over a whole fleet has half a minute."""
    started = time.monotonic()
    bare.run(networks=["198.51.100.0/24"])
    assert time.monotonic() - started < 15
