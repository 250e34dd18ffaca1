# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory itself: what it promises to tests, and that ``down`` leaves nothing."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.support.traces import PROGRAM, Traces, eventually, laboratory
from tests.lab import fabric, kvm, paths, processes, roots
from tests.lab.errors import LabError
from tests.lab.laboratory import Laboratory
from tests.lab.recipe import SUITES

FIRST = f"a{os.getpid()}"
SECOND = f"b{os.getpid()}"
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Laboratory, Laboratory]]:
    """Two laboratories side by side, with two hosts and with one; down leaves nothing."""
    roots.ensure_all([(suite, False) for suite in SUITES], Laboratory(FIRST).progress)
    traces = Traces(FIRST, SECOND)
    alone = not paths.RUN.exists()
    inotify = INOTIFY.read_text()
    first, second = Laboratory(FIRST, os.getpid()), Laboratory(SECOND, os.getpid())
    try:
        began = time.monotonic()
        first.up(2)
        took = time.monotonic() - began
        print(f"two warm hosts up in {took:.1f} s")
        second.up(1)
        assert took < 10 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
        assert len(traces.processes()) > 10
        assert any(line.startswith("link ") for line in traces.left())
        assert int(INOTIFY.read_text()) >= 1024
        yield first, second
    finally:
        first.down()
        second.down()
    traces.assert_none()
    if alone and not paths.RUN.exists():
        assert INOTIFY.read_text() == inotify


@pytest.fixture
def first(pair: tuple[Laboratory, Laboratory]) -> Laboratory:
    """The laboratory with two hosts."""
    return pair[0]


def test_inventory_users_reach_their_hosts(first: Laboratory) -> None:
    said = {
        host.name: first.ssh(host.name, "id -un; sudo -n id -un", user_root=False).stdout.split()
        for host in first.hosts
    }
    assert said == {"hv1": ["root", "root"], "hv2": ["admin", "root"]}


def test_inventory_key_does_not_let_root_in_where_a_user_is_meant(first: Laboratory) -> None:
    host = first.host("hv2")
    login = host.ssh_command(first.key, first.known_hosts, "root")
    done = host.execute(login, "true")
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_hosts_are_debian_12_and_13(first: Laboratory) -> None:
    assert [host.suite for host in first.hosts] == ["bookworm", "trixie"]
    for host, release in zip(first.hosts, ("12", "13"), strict=True):
        text = first.ssh(host.name, ["cat", "/etc/debian_version"]).stdout
        assert text.split(".")[0] == release


def test_libvirt_answers_with_a_uuid_of_its_own(first: Laboratory) -> None:
    uuids = set()
    for host in first.hosts:
        done = first.ssh(
            host.name,
            "virsh -c qemu:///system list --all && virsh -c qemu:///system capabilities",
            user_root=False,
        )
        assert "State" in done.stdout
        found = re.search(r"<uuid>(.+?)</uuid>", done.stdout)
        assert found is not None
        assert found.group(1) == host.uuid
        uuids.add(found.group(1))
    assert len(uuids) == 2


def test_bridge_holds_the_address_and_the_names_are_debians(first: Laboratory) -> None:
    for host, other in (("hv1", "hv2"), ("hv2", "hv1")):
        links = first.ssh(host, "ip -o link show master br0; ip -o -4 addr show br0").stdout
        assert "eth0" in links
        assert f" {first.host(host).address}/24 " in links
        names = first.ssh(host, "getent hosts $(hostname); getent hosts " + other).stdout
        assert re.search(rf"^127\.0\.1\.1\s.*\b{host}$", names, re.MULTILINE)
        assert first.host(other).address in names


def test_hosts_come_up_sound(first: Laboratory) -> None:
    for host in first.hosts:
        first.ssh(host.name, "timeout 50 systemctl is-system-running --wait || systemctl --failed")
        state = first.ssh(host.name, "systemctl is-system-running", check=False).stdout.strip()
        failed = first.ssh(host.name, "systemctl --failed --no-legend").stdout
        assert state == "running", failed


def test_device_nodes_are_private(first: Laboratory) -> None:
    before = os.stat("/dev/fuse")
    first.ssh("hv1", "test -c /dev/fuse && test -c /dev/net/tun && chmod 640 /dev/fuse")
    assert os.stat("/dev/fuse").st_mode == before.st_mode
    has = first.ssh("hv1", "test -c /dev/kvm", check=False).returncode == 0
    assert has == kvm.usable(first.progress)


def test_trial_guest_runs_emulated() -> None:
    """Else a KVM that works could be refused for a fault of the trial's."""
    assert kvm.trial(roots.ensure(SUITES[0]), "tcg") is None


def test_trial_guest_that_cannot_run_says_why() -> None:
    assert "nonsense" in (kvm.trial(roots.ensure(SUITES[0]), "nonsense") or "")


def test_trial_guest_that_is_not_ready_in_time() -> None:
    said = kvm.trial(roots.ensure(SUITES[0]), "tcg", limit=0.2)
    assert said == "the trial guest was not ready within 0.2 s: it said nothing"


def test_cut_and_heal(first: Laboratory) -> None:
    first.cut("hv2")
    assert first.host("hv2").state == "cut"
    with pytest.raises(OSError, match=r"timed out|No route"):
        socket.create_connection((first.host("hv2").address, 22), timeout=1)
    assert first.ssh("hv1", "true").returncode == 0
    first.heal("hv2")
    assert first.host("hv2").state == "running"
    assert eventually(lambda: first.ssh("hv2", "true", check=False).returncode == 0)


def test_killed_host_starts_again_with_its_disk(first: Laboratory) -> None:
    first.ssh("hv2", "echo kept > /root/file; sync")
    identity = first.ssh("hv2", "cat /etc/machine-id").stdout
    first.kill("hv2")
    assert first.host("hv2").state == "stopped"
    assert not processes.find(first.directory, "hv2")
    began = time.monotonic()
    first.start("hv2")
    took = time.monotonic() - began
    print(f"answers {took:.1f} s after the start")
    assert took < 5 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    assert first.ssh("hv2", "cat /root/file").stdout == "kept\n"
    assert first.ssh("hv2", "cat /etc/machine-id").stdout == identity


def test_stopped_host_shuts_down_in_order(first: Laboratory) -> None:
    first.ssh(
        "hv1",
        "systemd-run --unit=witness -p ExecStop='/bin/touch /root/stopped' sleep infinity",
    )
    first.stop("hv1")
    assert first.host("hv1").state == "stopped"
    first.start("hv1")
    first.ssh("hv1", "test -e /root/stopped")


def test_guests_get_addresses_by_dhcp(first: Laboratory) -> None:
    """Seen from a second interface of a host, as a guest's would be on its bridge."""
    mac = "52:54:00:fe:ed:01"
    first.ssh(
        "hv1",
        f"ip link add tap0 type veth peer name guest0 && ip link set guest0 address {mac} &&"
        " ip link set tap0 master br0 up && ip link set guest0 up",
    )
    script = (
        "import socket,sys,os\n"
        f"mac=bytes.fromhex('{mac.replace(':', '')}')\n"
        "s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,socket.htons(3));"
        "s.bind(('guest0',0));s.settimeout(5)\n"
        "b=bytes([1,1,6,0])+os.urandom(4)+bytes([0,0,128,0])+bytes(16)+mac+bytes(202)\n"
        "b+=bytes([99,130,83,99,53,1,1,12,5])+b'guest'+bytes([80,0,255])\n"
        "u=bytes([0,68,0,67])+(8+len(b)).to_bytes(2,'big')+bytes(2)+b\n"
        "h=bytearray([69,0])+(20+len(u)).to_bytes(2,'big')+bytes([0,0,0,0,64,17,0,0])"
        "+bytes(4)+bytes([255]*4)\n"
        "c=sum(int.from_bytes(h[i:i+2],'big') for i in range(0,20,2))\n"
        "c=(c&65535)+(c>>16);h[10:12]=(65535-c).to_bytes(2,'big')\n"
        "s.send(bytes([255]*6)+mac+b'\\x08\\0'+bytes(h)+u)\n"
        "while 1:\n"
        "  p=s.recv(2000)\n"
        "  if p[12:14]==b'\\x08\\0' and p[23]==17 and p[34:38]==bytes([0,67,0,68]):\n"
        "    print(socket.inet_ntoa(p[58:62]));break\n"
    )
    done = first.ssh("hv1", ["python3", "-"], input=script, timeout=30)
    address = ipaddress.IPv4Address(done.stdout.strip())
    assert address in first.network
    first.ssh("hv1", "ip link del tap0")


def test_bare_host_gets_packages_through_the_proxy(first: Laboratory) -> None:
    host = first.add(bare=True)
    assert (host.name, host.bare) == ("hv3", True)
    assert first.ssh("hv3", "command -v virsh tree", check=False).stdout == ""
    install = "apt-get update -q && apt-get install -y -q tree && tree --version"
    assert "tree v" in first.ssh("hv3", install, timeout=180).stdout
    assert host.address in first.ssh("hv1", "getent hosts hv3").stdout
    inventory = (first.inventory / "10-hypervisors.yml").read_text()
    assert inventory.index("bare:") < inventory.index("hv3:")


def test_proxy_listens_on_the_laboratorys_address_only(first: Laboratory) -> None:
    listing = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    (proxy,) = processes.find(first.directory, "proxy")[:1]
    ours = [line.split()[3] for line in listing if f"pid={proxy}," in line]
    assert ours == [f"{first.gateway}:8888"]


def test_laboratories_do_not_touch_each_other(pair: tuple[Laboratory, Laboratory]) -> None:
    first, second = pair
    assert not first.network.overlaps(second.network)
    assert fabric.RANGE.supernet_of(second.network)
    assert {first.gateway, second.gateway} <= set(
        re.findall(
            r"inet (\S+)/24",
            subprocess.run(["ip", "addr"], capture_output=True, text=True, check=True).stdout,
        )
    )
    second.kill("hv1")
    assert first.ssh("hv1", "true").returncode == 0
    second.start("hv1")
    status = laboratory(FIRST, "status").stdout
    assert FIRST in status
    assert SECOND in status


def test_up_again_adds_only_what_is_missing(pair: tuple[Laboratory, Laboratory]) -> None:
    _, second = pair
    leader = second.host("hv1").leader
    second.up(2)
    assert second.host("hv1").leader == leader
    assert [host.name for host in second.hosts] == ["hv1", "hv2"]


def test_known_hosts_are_the_real_keys(first: Laboratory, tmp_path: Path) -> None:
    wrong = tmp_path / "known_hosts"
    lines = first.known_hosts.read_text().splitlines()
    keys = dict(line.split(" ", 1) for line in lines)
    swapped = list(reversed(keys.values()))
    wrong.write_text("".join(f"{names} {key}\n" for names, key in zip(keys, swapped, strict=True)))
    host = first.host("hv1")
    done = host.execute(host.ssh_command(first.key, wrong, host.user), "true")
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--name", "Lab", "up", "1"], "'Lab' cannot name a laboratory"),
        (["up", "0"], "0 hosts: a laboratory has 1 to 50"),
        (["up", "1", "--suites", "sid"], "suite 'sid': the laboratory knows bookworm, trixie"),
        (["ssh", "hv1", "true"], "is not up: bring it up with"),
        (["kill", "hv1"], "is not up: bring it up with"),
        (["add"], "is not up: bring it up with"),
    ],
)
def test_bad_words_name_value_and_remedy(words: list[str], text: str) -> None:
    done = laboratory("nobody", *words, check=False)
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stdout == ""


def test_missing_packages_are_named_with_the_line_that_installs_them() -> None:
    done = subprocess.run(
        [str(PROGRAM), "up", "1"],
        env=dict(os.environ, PATH="/nonexistent"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "missing on this machine: bash, dnsmasq-base, e2fsprogs, iproute2" in done.stderr
    assert "apt-get install -y --no-install-recommends bash dnsmasq-base" in done.stderr


def test_name_in_use_in_another_cache_folder_is_refused(first: Laboratory, tmp_path: Path) -> None:
    environment = dict(os.environ, FLEET_VIRT_CACHE=str(tmp_path))
    (tmp_path / "roots").symlink_to(paths.cache() / "roots")
    for words in (["up", "1"], ["down"]):
        done = subprocess.run(
            [str(PROGRAM), "--name", FIRST, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert f"named {FIRST!r} is up in {first.directory}" in done.stderr
    assert first.ssh("hv1", "true").returncode == 0


def test_guest_console_and_logs_are_told(first: Laboratory) -> None:
    definition = """
    <domain type='qemu'><name>probe</name><memory unit='MiB'>32</memory>
    <os><type arch='x86_64'>hvm</type></os>
    <features><tcg><tb-cache unit='MiB'>32</tb-cache></tcg></features>
    <devices><serial type='file'><source path='/var/log/libvirt/qemu/probe.serial'/></serial>
    </devices></domain>"""
    first.ssh("hv1", "virsh -q create /dev/stdin", input=definition)
    try:
        first.ssh("hv1", "echo spoken > /var/log/libvirt/qemu/probe.serial")
        told = first.console("hv1", "probe")
        assert "/var/log/libvirt/qemu/probe.log\n" in told
        assert "qemu-system-x86_64" in told
        assert "probe.serial\nspoken\n" in told
    finally:
        first.ssh("hv1", "virsh -q destroy probe")
    assert "libvirt" in first.logs("hv1")
    first.kill("hv2")
    assert "Connection timed out" in first.logs("hv2") or "No route" in first.logs("hv2")
    first.start("hv2")


def test_unknown_host_is_named(first: Laboratory) -> None:
    with pytest.raises(LabError, match="has no host 'hv9': it has hv1, hv2"):
        first.kill("hv9")
