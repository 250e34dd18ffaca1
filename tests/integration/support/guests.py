# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests made with virsh, so that what the collection reads was not made by the collection."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from . import blank as blank_disk
from .waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[3]
IMAGES = "/var/lib/libvirt/images"
CONSOLES = "/var/log/fleet-virt-test"
BASE = f"{IMAGES}/tiny.qcow2"
BLANK = f"{IMAGES}/{blank_disk.NAME}"

_DOMAIN = """\
<domain type='{type}'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu>{vcpus}</vcpu>
  {top}
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <on_crash>{on_crash}</on_crash>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/>
      <source file='{disk}'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    {nics}
    <serial type='pty'><log file='{console}' append='off'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    {devices}
  </devices>
</domain>
"""
# The console of a VM of the collection is in libvirt's folder, that of a guest made here is not
_STANDING = """\
exec 2>&1
virsh -q domstate {name} --reason
virsh -q dumpxml {name} | grep org.qemu.guest_agent
for moment in 1 2; do
  date +%T.%N; virsh -q domstats --state --cpu-total --block --nowait {name}; sleep 2
done
uptime
for log in {consoles}/{name}.log /var/log/libvirt/qemu/{name}-console.log; do
  [ ! -e $log ] || {{ echo "end of $log:"; tail -n 30 $log; }}
done
echo "end of QEMU's own log:"; tail -n 15 /var/log/libvirt/qemu/{name}.log
"""
# Asks a guest's agent until it answers, in one process: virsh over SSH again and again takes what
# the guest needs to boot
_ASK_AGENT = """\
import sys, time
import libvirt, libvirt_qemu
libvirt.registerErrorHandler(lambda *_: None, None)
name, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
said = ""
while said != "yes" and time.monotonic() < end:
    try:
        domain = libvirt.open("qemu:///system").lookupByName(name)
        libvirt_qemu.qemuAgentCommand(domain, '{"execute": "guest-ping"}', 2, 0)
        said = "yes"
    except libvirt.libvirtError as error:
        said = str(error)
        time.sleep(0.3)
print(said)
"""
NIC = "<interface type='bridge'><source bridge='br0'/><model type='virtio'/></interface>"


class Guests:
    """Tiny guests on the laboratory's hosts; remembers what it made, for failures and the end."""

    def __init__(self, lab: Laboratory) -> None:
        self.lab = lab
        self.made: list[tuple[str, str]] = []
        self._prepared: set[str] = set()

    def script(self, host: str, text: str, *, limit: float = 60, input: str | None = None) -> str:  # noqa: A002
        """Run a shell script as root on a host, stopping at the first failure; its output."""
        return self.lab.ssh(host, f"set -e\n{text}", timeout=limit, input=input).stdout

    def virsh(self, host: str, *words: str, limit: float = 60) -> str:
        """Run virsh against a host's system connection; its output."""
        return self.script(host, f"virsh -q -c qemu:///system {shlex.join(words)}", limit=limit)

    def prepare(self, host: str) -> None:
        """Bring both images to the host and have the pool ``default``, once a session."""
        if host in self._prepared:
            return
        image = _tiny_image()
        with image.open("rb") as stream:
            make = f"mkdir -p {CONSOLES}; cat > {BASE}; {blank_disk.script(BLANK)}"
            command = [*self.lab.login(host), "--", make]
            subprocess.run(command, stdin=stream, check=True, timeout=60)
        self.pool(host, "default", IMAGES)
        self._prepared.add(host)

    def forget(self) -> None:
        """The images were swept away: they have to be brought again."""
        self._prepared.clear()

    def pool(self, host: str, name: str, path: str, *, start: bool = True) -> None:
        """Define a directory pool unless it is there; started with its content listed."""
        self.script(
            host,
            f"virsh -q pool-info {name} >/dev/null 2>&1 || "
            f"virsh -q pool-define-as {name} dir --target {path}\n"
            f"mkdir -p {path}\n"
            + (
                f"virsh -q pool-start {name} 2>/dev/null || virsh -q pool-refresh {name}\n"
                if start
                else ""
            ),
        )

    def xml(
        self,
        name: str,
        *,
        memory: int = 96,
        vcpus: int = 1,
        nics: Sequence[str] = (NIC,),
        devices: str = "",
        top: str = "",
        on_crash: str = "destroy",
    ) -> str:
        """The definition of a guest on an overlay of its own."""
        return _DOMAIN.format(
            type="kvm" if self.lab.record.kvm else "qemu",
            name=name,
            memory=memory,
            vcpus=vcpus,
            top=top,
            on_crash=on_crash,
            disk=f"{IMAGES}/{name}.qcow2",
            nics="\n    ".join(nics),
            console=f"{CONSOLES}/{name}.log",
            devices=devices,
        )

    def define(
        self,
        host: str,
        name: str,
        *,
        start: bool = False,
        paused: bool = False,
        blank: bool = False,
        **options: Any,
    ) -> None:
        """Define a tiny guest, with :meth:`xml`'s options, and start it if asked.

        A ``blank`` one has no operating system: for tests in which it only has to run. The pool
        does not know its disk before it is refreshed.
        """
        self.prepare(host)
        self.made.append((host, name))
        base = BLANK if blank else BASE
        begin = f"virsh -q start {name}{' --paused' if paused else ''}\n"
        self.script(
            host,
            f"qemu-img create -q -f qcow2 -b {base} -F qcow2 {IMAGES}/{name}.qcow2\n"
            "cat > /run/domain.xml; virsh -q define /run/domain.xml\n"
            + (begin if start or paused else ""),
            input=self.xml(name, **options),
        )

    def define_xml(self, host: str, name: str, xml: str) -> None:
        """Define whatever ``xml`` says."""
        self.made.append((host, name))
        self.script(host, "cat > /run/domain.xml; virsh -q define /run/domain.xml", input=xml)

    def state(self, host: str, name: str) -> str:
        """State and reason in virsh's words, for example ``running (booted)``."""
        return self.virsh(host, "domstate", name, "--reason").strip()

    def agent(self, host: str, name: str, command: str, **arguments: Any) -> Any:
        """Ask the guest's agent; what it returns. Fails where no agent answers."""
        request = json.dumps({"execute": command, "arguments": arguments})
        # an emulated guest may have to wait for a processor, with several others beside it
        answer = self.virsh(host, "qemu-agent-command", "--timeout", "50", name, request, limit=90)
        return json.loads(answer)["return"]

    def execute(self, host: str, name: str, command: str, *, wait: bool = True) -> None:
        """Have the agent run a shell command inside the guest, and wait until it has ended.

        Without waiting it begins a second after the agent was asked: one that stops the guest may
        otherwise stop it before the agent has answered.

        :raises AssertionError: it failed, or did not end within 20 seconds.
        """
        words = ["-c", command if wait else f"sleep 1; {command}"]
        pid = self.agent(host, name, "guest-exec", path="/bin/sh", arg=words)["pid"]
        if wait:
            status = wait_for(
                lambda: (
                    (found := self.agent(host, name, "guest-exec-status", pid=pid))["exited"]
                    and found
                ),
                20,
                f"{command!r} inside {name}",
            )
            assert status["exitcode"] == 0, f"{command!r} inside {name}: {status}"

    def output(self, host: str, name: str, command: str) -> list[str]:
        """The lines that a shell command prints inside the guest, which its agent runs."""
        words = {"path": "/bin/sh", "arg": ["-c", command], "capture-output": True}
        pid = self.agent(host, name, "guest-exec", **words)["pid"]
        status = wait_for(
            lambda: (
                (found := self.agent(host, name, "guest-exec-status", pid=pid))["exited"] and found
            ),
            20,
            f"what {command!r} prints inside {name}",
        )
        return base64.b64decode(status.get("out-data", "")).decode().splitlines()

    def wait_agent(self, host: str, name: str, limit: float = 90) -> None:
        """Wait until the guest's agent answers: it has booted.

        One that hangs in its firmware or its kernel, which emulated ones do now and then, is reset
        once: it was booted here, and half of the time went by without a word on its console.

        :raises AssertionError: it did not; says whether the guest stands still or is slow.
        """
        said = ""

        def answers(within: float) -> bool:
            nonlocal said
            words = [name, str(within)]
            done = self.lab.python(host, _ASK_AGENT, words, check=False, timeout=within + 30)
            said = (done.stdout + done.stderr).strip()
            return said == "yes"

        if answers(limit / 2):
            return
        if self._hangs(host, name):
            print(f"{name} on {host} has not said a word for {limit / 2:g} s: it is reset")
            self.virsh(host, "reset", name)
        if not answers(limit / 2):
            text = f"agent of {name} on {host}: not within {limit:g} s: {said}"
            raise AssertionError(f"{text}\n{self.standing(host, name)}")

    def _hangs(self, host: str, name: str) -> bool:
        """Whether an emulated guest was booted on this host and never came to its first program."""
        words = f"{CONSOLES}/{name}.log /var/log/libvirt/qemu/{name}-console.log"
        heard = self.lab.ssh(host, f"cat {words} 2>/dev/null", check=False).stdout
        booted = self.state(host, name) == "running (booted)"
        return booted and not heard.strip() and not self.lab.record.kvm

    def standing(self, host: str, name: str) -> str:
        """Whether a guest works: its state and channel, its CPU time twice, the console's end."""
        return self.lab.ssh(
            host, _STANDING.format(name=name, consoles=CONSOLES), check=False, timeout=90
        ).stdout

    def told(self, host: str, name: str, lines: int) -> str:
        """What a guest's console and its qemu said last, for a failed test."""
        paths = f"{CONSOLES}/{name}.log /var/log/libvirt/qemu/{name}.log"
        done = self.lab.ssh(host, f"tail -n {lines} {paths} 2>&1", check=False, timeout=20)
        return done.stdout

    def remove(self, host: str, name: str) -> None:
        """Take a guest away with its own disk and console, whatever state it is in."""
        self.lab.ssh(
            host,
            f"virsh -q destroy {name} 2>/dev/null; "
            f"virsh -q undefine {name} --managed-save --snapshots-metadata --nvram; "
            f"rm -f {IMAGES}/{name}.qcow2 {CONSOLES}/{name}.log",
            check=False,
        )
        self.made = [entry for entry in self.made if entry != (host, name)]

    def remove_all(self) -> None:
        """Take every guest away that is left."""
        for host, name in list(self.made):
            self.remove(host, name)


def _tiny_image() -> Path:
    command = [sys.executable, "-m", "tests.lab.images", "tiny"]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, f"the tiny image cannot be had: {done.stderr}"
    return Path(done.stdout.split()[-1])
