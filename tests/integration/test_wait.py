# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_wait on real guests: those that answer, each by another source, and those that do not."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.contract import documentation
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import CONSOLES, Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

WAIT = "fleet.virt.virt_wait"
NAMESPACE = "urn:fleet.virt:1"
_NUMBERS = itertools.count(1000)
LIMIT = 120  # emulated guests on a busy machine
# hv1 has one with a guest agent and one without; hv2 has one
NAMES = {"hv1": ["web1", "web2"], "hv2": ["web3"]}


def without_agent(guests: Guests, host: str, name: str) -> None:
    """Define a guest that has no channel for an agent, and start it."""
    guests.define(host, name)
    xml = guests.xml(name).replace("org.qemu.guest_agent.0", "org.example.nobody")
    guests.virsh(host, "undefine", name)
    guests.script(host, "cat > /run/domain.xml; virsh -q define /run/domain.xml", input=xml)
    guests.virsh(host, "start", name)


def typed(guests: Guests, host: str, name: str, command: str) -> None:
    """Type a command at the root shell on the guest's serial console, and wait until it ran."""
    number = next(_NUMBERS)
    line = shlex.quote(f"\n{command}\necho typed-$(({number} + 0))\n")
    # qemu sees who has opened the line once a second, and only then reads it
    guests.script(
        host,
        f"exec 3<> $(virsh -q ttyconsole {name})\n"
        "cat <&3 >/dev/null & reader=$!\n"
        f"printf %s {line} >&3\n"
        f"for turn in $(seq 150); do grep -q 'typed-{number}' {CONSOLES}/{name}.log && break\n"
        "sleep 0.2; done; kill $reader; [ $turn -lt 150 ]",
    )


def waiting(ansible: Ansible, hosts: str, options: dict[str, Any], **settings: Any) -> Run:
    task = {"name": "Wait", WAIT: {"wait_timeout": LIMIT, **options}}
    return ansible.play([task], hosts, become=True, **settings)


def by_name(run: Run, host: str = "hv1") -> dict[str, dict[str, Any]]:
    return {vm["name"]: vm for vm in run.of("Wait")[host]["vms"]}


@pytest.fixture(scope="module")
def first(ansible: Ansible, all_guests: Guests) -> Iterator[tuple[Run, float]]:
    """Three guests started on two hypervisors, and the wait for them with what it took."""
    all_guests.define("hv1", "web1", start=True)
    without_agent(all_guests, "hv1", "web2")
    all_guests.define("hv2", "web3", start=True)
    begun = time.monotonic()
    names = "{{ names[inventory_hostname] }}"
    run = waiting(ansible, "hypervisors", {"names": names}, vars={"names": NAMES})
    yield run, time.monotonic() - begun
    for host, some in NAMES.items():
        for name in some:
            all_guests.remove(host, name)


@pytest.fixture
def web(first: tuple[Run, float], guests: Guests) -> Guests:
    """The guests, which answer."""
    first[0].succeeded()
    return guests


@pytest.fixture(scope="module")
def mute(all_guests: Guests) -> Iterator[Guests]:
    """A guest that boots but has no NIC."""
    all_guests.define("hv1", "mute", start=True, nics=())
    yield all_guests
    all_guests.remove("hv1", "mute")


@pytest.fixture(scope="module")
def _halted(all_guests: Guests) -> Iterator[Guests]:
    all_guests.define("hv1", "halted", nics=(), blank=True)
    yield all_guests
    all_guests.remove("hv1", "halted")


@pytest.fixture
def halted(_halted: Guests) -> Guests:
    """One that only runs: it has neither a NIC nor an operating system."""
    if not _halted.state("hv1", "halted").startswith("running"):
        _halted.virsh("hv1", "start", "halted")
    return _halted


def test_all_at_once(first: tuple[Run, float], lab: Laboratory) -> None:
    run, took = first
    run.succeeded()
    seconds = []
    for host, names in NAMES.items():
        found = by_name(run, host)
        assert list(found) == names
        for name, vm in found.items():
            assert vm["answered"], vm
            assert (
                vm["address"].rpartition(".")[0] == str(lab.host(host).address).rpartition(".")[0]
            )
            assert f"{name} on {host}: waiting until it answers on port 22" in run.stdout
            assert f"{name}: address {vm['address']}" in run.stdout
            assert f"{name}: answers after {vm['seconds']:g} s" in run.stdout
            seconds.append(vm["seconds"])
        said = [run.stdout.index(f"{name} on {host}: waiting") for name in names]
        answers = [run.stdout.index(f"{name}: answers after") for name in names]
        assert max(said) < min(answers)
    assert max(seconds) < took, (took, seconds)
    assert by_name(run)["web2"]["source"] == "neighbour"
    addresses = {vm["address"] for host in NAMES for vm in by_name(run, host).values()}
    assert len(addresses) == 3


def test_the_agents_word_goes_before_the_neighbours(web: Guests, ansible: Ansible) -> None:
    web.wait_agent("hv1", "web1", LIMIT)
    vm = by_name(waiting(ansible, "hv1", {"names": ["web1"]}).succeeded())["web1"]
    assert (vm["source"], vm["state"], vm["reason"]) == ("agent", "running", "booted")


def test_the_network_is_asked_for_who_is_not_known(web: Guests, ansible: Ansible) -> None:
    web.script("hv1", "ip neigh flush dev br0")
    vm = by_name(waiting(ansible, "hv1", {"names": ["web2"]}).succeeded())["web2"]
    assert vm["source"] == "neighbour"


def test_a_static_address_and_another_machine_that_has_it(
    web: Guests, ansible: Ansible, lab: Laboratory
) -> None:
    def declare(address: str) -> None:
        element = f"<fleet><address>{address}/24</address></fleet>"
        words = ("--key", "fleet", "--set", element, "--live", "--config")
        web.virsh("hv1", "metadata", "web1", NAMESPACE, *words)

    right = by_name(waiting(ansible, "hv1", {"names": ["web1"]}).succeeded())["web1"]["address"]
    declare(right)
    vm = by_name(waiting(ansible, "hv1", {"names": ["web1"]}).succeeded())["web1"]
    assert (vm["address"], vm["source"]) == (right, "static")
    taken = str(lab.host("hv2").address)  # where an SSH server answers
    declare(taken)
    vm = by_name(waiting(ansible, "hv1", {"names": ["web1"]}).succeeded())["web1"]
    assert (vm["address"], vm["source"]) == (right, "agent")
    assert vm["addresses"] == [taken, right]
    web.virsh("hv1", "metadata", "web1", NAMESPACE, "--remove", "--live", "--config")


def test_the_consoles_word_where_nobody_else_knows(web: Guests, ansible: Ansible) -> None:
    # a network that is too large to be asked
    web.script("hv1", "ip addr add 10.99.0.1/16 dev br0")
    found = web.virsh("hv1", "domiflist", "web2")
    mac = next(word for word in found.split() if word.count(":") == 5)
    row = f"ci-info: | eth0 | True | 10.99.0.5 | 255.255.0.0 | global | {mac} |"
    try:
        typed(web, "hv1", "web2", "ip addr flush dev eth0; ip addr add 10.99.0.5/16 dev eth0")
        typed(web, "hv1", "web2", f"echo 'ci-info: +++Net device info+++'; echo '{row}'")
        vm = by_name(waiting(ansible, "hv1", {"names": ["web2"]}).succeeded())["web2"]
        assert (vm["address"], vm["source"]) == ("10.99.0.5", "console")
    finally:
        web.script("hv1", "ip addr del 10.99.0.1/16 dev br0")
        log = f"{CONSOLES}/web2.log"
        leases = int(web.script("hv1", f"grep -c 'TINY LEASE' {log} || true"))
        typed(web, "hv1", "web2", "ip addr flush dev eth0; kill $(cat /run/udhcpc.eth0)")
        # who asks the network while it has no address hears nothing of it
        web.script(
            "hv1",
            f"for turn in $(seq 150); do [ $(grep -c 'TINY LEASE' {log}) -gt {leases} ] && break\n"
            "sleep 0.2; done; [ $turn -lt 150 ]",
        )


def test_an_address_that_the_console_told_earlier_is_not_the_end(
    web: Guests, ansible: Ansible
) -> None:
    web.script("hv1", "ip neigh flush dev br0")
    vm = by_name(waiting(ansible, "hv1", {"names": ["web2"]}).succeeded())["web2"]
    assert (vm["answered"], vm["source"]) == (True, "neighbour")
    assert vm["addresses"] == [vm["address"], "10.99.0.5"]


def test_a_closed_port(web: Guests, ansible: Ansible) -> None:
    web.wait_agent("hv1", "web1", LIMIT)
    run = waiting(ansible, "hv1", {"names": ["web1"], "port": 2222, "wait_timeout": 6})
    assert run.returncode != 0
    result = run.of("Wait")["hv1"]
    (vm,) = result["vms"]
    assert (vm["answered"], vm["seconds"], vm["source"]) == (False, None, "agent")
    assert vm["msg"] == f"{vm['address']} (from agent): port 2222: Connection refused"
    assert result["msg"] == f"web1: {vm['msg']}"
    assert any("TINY READY" in line for line in vm["console"])


def test_a_port_where_something_else_answers(web: Guests, ansible: Ansible) -> None:
    web.execute("hv1", "web1", "httpd -p 2223 -h /tmp")
    try:
        run = waiting(ansible, "hv1", {"names": ["web1"], "port": 2223, "wait_timeout": 16})
    finally:
        web.execute("hv1", "web1", "killall httpd")
    assert run.returncode != 0
    vm = by_name(run)["web1"]
    expected = f"{vm['address']} (from agent): port 2223 is open, but sends no SSH banner"
    assert vm["msg"] == expected


def test_an_agent_that_hangs_costs_seconds(web: Guests, ansible: Ansible) -> None:
    web.wait_agent("hv1", "web1", LIMIT)
    typed(web, "hv1", "web1", "kill -STOP $(pidof qemu-ga)")
    ping = 'virsh -q qemu-agent-command --timeout 1 web1 \'{"execute": "guest-ping"}\''
    wait_for(lambda: web.lab.ssh("hv1", ping, check=False).returncode, 30, "a silent agent")
    try:
        found = by_name(waiting(ansible, "hv1", {"names": ["web1", "web2"]}).succeeded())
        assert {vm["source"] for vm in found.values()} == {"neighbour"}
        assert max(vm["seconds"] for vm in found.values()) < 30
    finally:
        typed(web, "hv1", "web1", "kill -CONT $(pidof qemu-ga)")


def test_what_does_not_run_is_not_waited_for(web: Guests, ansible: Ansible) -> None:
    web.define("hv1", "off")
    begun = time.monotonic()
    run = waiting(ansible, "hv1", {"names": ["off", "web1"]})
    assert time.monotonic() - begun < LIMIT / 2
    assert run.returncode != 0
    found = by_name(run)
    assert found["web1"]["answered"]
    assert not found["off"]["answered"]
    assert found["off"]["msg"].startswith("it is not running: shutoff")
    assert "off on hv1 does not answer: it is not running: shutoff" in run.stdout
    assert "off: its console shows nothing" in run.stdout


@pytest.mark.usefixtures("web", "halted")
def test_one_that_does_not_answer_holds_up_nobody(ansible: Ansible) -> None:
    run = waiting(ansible, "hv1", {"names": ["halted", "web1"], "wait_timeout": "6"})
    vms = by_name(run)
    assert (vms["halted"]["answered"], vms["web1"]["answered"]) == (False, True)
    assert vms["web1"]["seconds"] < 6


def test_the_console_of_one_that_does_not_answer(mute: Guests, ansible: Ansible) -> None:
    mute.wait_agent("hv1", "mute", LIMIT)
    typed(mute, "hv1", "mute", "printf '\\033[31m{{ 6 * 7 }}\\033[0m\\n'")
    run = waiting(ansible, "hv1", {"names": ["mute"], "wait_timeout": "4"})
    assert run.returncode != 0
    result = run.of("Wait")["hv1"]
    assert result["msg"] == "mute: no address: it has no NIC"
    (vm,) = result["vms"]
    assert (vm["answered"], vm["address"], vm["state"]) == (False, None, "running")
    assert "{{ 6 * 7 }}" in vm["console"]  # neither coloured nor computed
    assert "  mute | {{ 6 * 7 }}" in run.stdout
    assert all(line.isprintable() for line in vm["console"])


def test_a_login_prompt_of_a_guest_that_has_no_cloud_init_ends_the_wait(
    mute: Guests, ansible: Ansible
) -> None:
    """Long before the time limit, and not before it has stood there for half a minute."""
    medium = "pool='default' name='mute_seed.iso' path='/run/none.iso' target='sda' role='seed'"
    key = f"<host_key>ssh-ed25519 {'A' * 68}</host_key>"
    words = ("--key", "fleet", "--set", f"<fleet>{key}<volume {medium}/></fleet>")
    mute.virsh("hv1", "metadata", "mute", NAMESPACE, *words, "--live", "--config")
    mute.wait_agent("hv1", "mute", LIMIT)
    typed(mute, "hv1", "mute", "(sleep 2; printf '\n\nmute login: ' > /dev/console) &")
    begun = time.monotonic()
    run = waiting(ansible, "hv1", {"names": ["mute"], "wait_timeout": 300})
    took = time.monotonic() - begun
    assert run.returncode != 0
    assert 28 < took < 120
    (vm,) = run.of("Wait")["hv1"]["vms"]
    for said in ("has been at a login prompt for 30 s", "Recreate it with an image that has"):
        assert said in vm["msg"], vm
    assert vm["console"][-1] == "mute login:"


def test_one_that_ends_meanwhile(halted: Guests, ansible: Ansible) -> None:
    at_once = "--timer-property=AccuracySec=100ms"  # not within a minute after it
    halted.script("hv1", f"systemd-run -q --on-active=8 {at_once} virsh -q destroy halted")
    begun = time.monotonic()
    run = waiting(ansible, "hv1", {"names": ["halted"]})
    assert time.monotonic() - begun < LIMIT
    assert run.of("Wait")["hv1"]["msg"] == "halted: it is not running: shutoff (destroyed)"


def test_it_outlives_its_ssh_connection(halted: Guests, ansible: Ansible) -> None:
    shown = ansible.module("hv1", "ansible.builtin.debug", {"var": "hostvars['hv1']"})["hv1"]
    known = shown["hostvars['hv1']"]
    common = shlex.split(known["ansible_ssh_common_args"])
    target = f"{known['ansible_user']}@{known['ansible_host']}"
    cut: list[int] = []

    def disturb() -> None:
        command = ["ssh", *common, "-O", "exit", target]
        for _ in range(6):  # once it would be between two calls, and nothing would be cut
            cut.append(subprocess.run(command, capture_output=True, check=False).returncode)
            time.sleep(0.8)

    run = disturbed(ansible, disturb)
    assert 0 in cut, "there was no connection to cut"
    assert "hv1: cannot be reached" in run.stdout, str(run)
    assert run.of("Wait")["hv1"]["msg"] == "halted: no address: it has no NIC", str(run)
    assert halted.state("hv1", "halted").startswith("running")


def test_it_outlives_the_daemon(halted: Guests, ansible: Ansible, lab: Laboratory) -> None:
    units = "libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"

    def disturb() -> None:
        lab.ssh("hv1", f"systemctl stop {units} libvirtd.service")
        try:
            time.sleep(6)  # longer than the pause between two calls
        finally:
            lab.ssh("hv1", f"systemctl start {units} libvirtd.service")

    run = disturbed(ansible, disturb)
    assert "hv1: cannot connect to libvirt at qemu:///system: " in run.stdout, str(run)
    assert run.of("Wait")["hv1"]["msg"] == "halted: no address: it has no NIC", str(run)
    assert halted.state("hv1", "halted").startswith("running")


def disturbed(ansible: Ansible, disturb: Callable[[], None]) -> Run:
    """A wait for the guest ``halted`` that is disturbed when it is well under way.

    That is after 7 seconds where a ping takes 1.5 s, on a busier machine in proportion.
    """
    began = time.monotonic()
    ansible.module("hv1", "ansible.builtin.ping")
    slower = max(1.0, (time.monotonic() - began) / 1.5)

    def later() -> None:
        time.sleep(7 * slower)
        disturb()

    thread = threading.Thread(target=later)
    thread.start()
    options = {"names": ["halted"], "wait_timeout": int(25 * slower), "slice": 3}
    run = waiting(ansible, "hv1", options)
    thread.join()
    return run


def test_check_mode_knows_nothing(ansible: Ansible) -> None:
    result = ansible.module("hv1", "virt_wait", {"names": ["web1", "nobody"]}, check=True)["hv1"]
    assert not result["failed"]
    assert [(vm["name"], vm["answered"]) for vm in result["vms"]] == [
        ("web1", None),
        ("nobody", None),
    ]


_WRONG: dict[str, dict[str, Any]] = {
    "no domain 'nobody' on this hypervisor": {"names": ["nobody"]},
    "wait_timeout: 0 is not a time limit": {"names": ["web1"], "wait_timeout": 0},
    "slice: -1 is not a time limit": {"names": ["web1"], "slice": "-1"},
    "timeout: 0 is not a time limit": {"names": ["web1"], "timeout": 0},
    "port: 70000 is not a TCP port": {"names": ["web1"], "port": 70000},
    "names": {},
}


def test_wrong_input(ansible: Ansible) -> None:
    tasks = [
        {"name": message, WAIT: options, "ignore_errors": True}
        for message, options in _WRONG.items()
    ]
    run = ansible.play(tasks, "hv1", become=True)
    assert [(event.task, event.status) for event in run.events] == [
        (message, "failed") for message in _WRONG
    ], str(run)
    for message in _WRONG:
        assert message in run.of(message)["hv1"]["msg"]


def test_nobody_is_waited_for_at_once(ansible: Ansible) -> None:
    result = ansible.module("hv1", "virt_wait", {"names": []})["hv1"]
    assert not result["failed"]
    assert result["vms"] == []


@pytest.mark.usefixtures("web")
def test_returns_what_is_documented(ansible: Ansible) -> None:
    returned = waiting(ansible, "hv1", {"names": ["web1"]}).succeeded().of("Wait")["hv1"]
    result = {key: value for key, value in returned.items() if not key.startswith("_ansible_")}
    assert documentation.undocumented("virt_wait", result) == []
    assert documentation.missing("virt_wait", result) == []


@pytest.mark.usefixtures("web")
def test_examples_run_as_written(ansible: Ansible) -> None:
    shown = documentation.examples("virt_wait")
    run = ansible.play([example.task for example in shown], "hv1", become=True).succeeded()
    addresses = run.of("Show their addresses")["hv1"]["msg"]
    assert sorted(addresses) == NAMES["hv1"]
    assert all(addresses.values())
