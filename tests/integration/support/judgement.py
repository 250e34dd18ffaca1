# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether plan, check mode and run agree, tried on a hypervisor by what its modules call.

    python3 judgement.py SEED TRIALS [IMAGE GUESTS | GUEST]

Runs on a hypervisor, beside a copy of ``module_utils``. Each trial is one pair of a definition and
a request: it is planned (as ``fleet.virt.plan`` does), checked, run, planned and checked again.
They are of VMs that are defined and not started; with IMAGE, of as many GUESTS of it, which run
and have an agent; with GUEST, of that one. The last line of its output is JSON: how many of each
outcome, and what differs.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from typing import Any

import libvirt
import libvirt_qemu
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    read_existing as existing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ProvisionWork
from judgement_random import BOOTED, Chooser, Options
from lxml import etree

_URI = "qemu:///system"
_FOLDER = "/var/lib/libvirt/images"
_WHOLE = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
_BOOT = 120.0  # seconds that a guest may take to boot, emulated
_WALK = 5  # requests of a VM one after the other, each with the definition that the last one left


class Judge:
    """One hypervisor, and what came out so far."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.outcomes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.problems: list[dict[str, Any]] = []

    def settings(self, vm: Options) -> tuple[Any, Any]:
        """The request as the module reads it."""
        passwords = {}
        console = vm.get("console")
        if isinstance(console, dict) and "password" in console:
            passwords[vm["name"]] = console["password"]
        return init.read_options(
            {
                "vms": [vm],
                "disk_profiles": {},
                "nic_profiles": {},
                "pool": "default",
                "base_pool": "base",
                "pool_paths": {"default": _FOLDER, "base": "/var/lib/libvirt/base"},
                "ssh_public_keys": [],
                "fleet": "judged",
                "limits": {"virt_memory_overcommit": 100, "virt_cpu_overcommit": 1000},
                "converge": True,
                "_passwords": passwords,
                "_seeds": "",
                "_notes": "",
                "fleet_cpu": None,
            },
            ProvisionWork(home="hv1"),
        )

    def asked(self, chooser: Chooser, name: str, *, running: bool) -> Options:
        """A random request that is one: the reader refuses the others."""
        while True:
            vm = chooser.asked(name, running)
            try:
                self.settings(vm)
            except SpecError:
                continue
            return vm

    def init(self, vm: Options, *, check: bool) -> dict[str, Any]:
        """The entry of the VM in the module's result."""
        domains, settings = self.settings(vm)
        result = init.run(self.connection, domains, settings, stage="all", check=check)
        return dict(result["vms"][0])

    def plan(self, vm: Options) -> dict[str, Any]:
        """The VM in the plan."""
        domains, settings = self.settings(vm)
        return dict(existing.compare(self.connection, domains, settings)[0])

    def definitions(self, name: str) -> tuple[str, ...]:
        """What must not change where nothing is said to."""
        dom = self.connection.conn.lookupByName(name)
        # of a running guest memory and addresses change by themselves
        return dom.XMLDesc(_WHOLE), str(dom.autostart())

    def judge(self, trial: str, vm: Options, edits: list[str]) -> None:
        """One pair; what does not agree is noted."""
        name = vm["name"]
        before = self.definitions(name)
        plan = self.plan(vm)
        check = self.init(vm, check=True)
        unchanged = self.definitions(name) == before
        real = self.init(vm, check=False)
        after = self.definitions(name)
        wrong = [] if unchanged else ["check mode changed the VM"]
        for entry in (check, real):  # new devices may be listed in another order
            entry["pending"] = sorted(entry["pending"])
        for key in ("changed", "failed", "refused", "pending", "steps", "msg"):
            if check[key] != real[key]:
                wrong.append(f"{key}: check {check[key]!r}, run {real[key]!r}")
        wrong += _planned(plan, check)
        if real["failed"]:
            outcome = "refused"
            self.reasons[str(check["msg"])[-150:]] += 1
            if after != before:
                wrong.append("what failed changed the VM")
        else:
            outcome = "pending" if real["pending"] else "changed" if real["changed"] else "same"
            again, later = self.plan(vm), self.init(vm, check=True)
            if again["differences"]:
                wrong.append(f"afterwards the plan has {again['differences']}")
            if later["changed"] or later["failed"]:
                wrong.append(f"afterwards check mode has {later['steps']} {later['msg']}")
            if not real["changed"] and after != before:
                wrong.append("unchanged, and the definition is another")
            if sorted(again["pending"]) != sorted(real["pending"]):
                wrong.append(f"pending: plan {again['pending']}, run {real['pending']}")
        self.outcomes[outcome] += 1
        if wrong:
            self.problems.append({"trial": trial, "request": vm, "edits": edits, "wrong": wrong})
            print(f"{trial} {edits} {vm}: {wrong}", file=sys.stderr, flush=True)


def _planned(plan: dict[str, Any], check: dict[str, Any]) -> list[str]:
    """How the plan differs from what check mode says."""
    lines = plan["differences"]
    if lines is None:
        return ["the plan compares nothing"]
    if check["failed"]:
        named = [line for line in lines if line.removeprefix("refused: ") in check["msg"]]
        return [] if named else [f"plan {lines}, check fails: {check['msg']}"]
    return [] if lines == check["steps"] else [f"plan {lines}, check {check['steps']}"]


def defined(judge: Judge, seed: str, trials: int) -> None:
    """Pairs with VMs that are not started."""
    conn = judge.connection.conn
    for number in range(0, trials, _WALK):
        name = f"judged{number}"
        chooser = Chooser(f"{seed}:{number}")
        while (made := judge.init(chooser.created(name), check=False))["failed"]:
            judge.outcomes["not created"] += 1
            print(f"{seed}:{number}: {made['msg']}", file=sys.stderr)
        try:
            for step in range(min(_WALK, trials - number)):
                trial = f"{seed}:{number}.{step}"
                dom = conn.lookupByName(name)
                root = etree.fromstring(dom.XMLDesc(_WHOLE))
                edits = chooser.edited(root)
                try:
                    conn.defineXML(etree.tostring(root, encoding="unicode"))
                except libvirt.libvirtError as error:
                    judge.outcomes["no such definition"] += 1
                    edits = [*edits, f"not: {error}"]
                judge.judge(trial, judge.asked(chooser, name, running=False), edits)
        finally:
            remove(judge, name)


def running(judge: Judge, seed: str, trials: int, image: str, guests: int) -> None:
    """Pairs with guests that run, each with the definition that the request before has left."""
    conn = judge.connection.conn
    for guest in range(guests):
        name = f"running{guest}"
        chooser = Chooser(f"{seed}:running:{guest}")
        made = judge.init(chooser.booted(name, image), check=False)
        if made["failed"]:
            raise SystemExit(f"{name}: {made['msg']}")
        try:
            root = etree.fromstring(conn.lookupByName(name).XMLDesc(_WHOLE))
            edits = chooser.edited(root, BOOTED)
            dom = conn.defineXML(etree.tostring(root, encoding="unicode"))
            dom.create()
            wait_for_agent(dom)
            for number in range(guest, trials, guests):
                vm = judge.asked(chooser, name, running=True)
                judge.judge(f"{seed}:running:{guest}.{number}", vm, edits)
        finally:
            with contextlib.suppress(libvirt.libvirtError):
                conn.lookupByName(name).destroy()
            remove(judge, name)


def of_guest(judge: Judge, seed: str, trials: int, name: str) -> None:
    """Pairs with a guest that runs and stays, with the definition that the request before left."""
    wait_for_agent(judge.connection.conn.lookupByName(name))
    chooser = Chooser(f"{seed}:{name}")
    for number in range(trials):
        vm = judge.asked(chooser, name, running=True)
        judge.judge(f"{seed}:{name}:{number}", vm, [])


def wait_for_agent(dom: Any) -> None:
    """Until the guest has booted, and its drivers with it."""
    end = time.monotonic() + _BOOT
    while True:
        try:
            libvirt_qemu.qemuAgentCommand(dom, '{"execute": "guest-ping"}', 2, 0)
        except libvirt.libvirtError as error:
            if time.monotonic() > end:
                raise SystemExit(f"{dom.name()} did not boot: {error}") from None
            time.sleep(0.5)
        else:
            return


def remove(judge: Judge, name: str) -> None:
    """The VM with all its volumes."""
    dom = judge.connection.conn.lookupByName(name)
    dom.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
    pool = judge.connection.conn.storagePoolLookupByName("default")
    pool.refresh(0)
    for volume in pool.listAllVolumes(0):
        if volume.name().startswith(f"{name}_"):
            volume.delete(0)


def main() -> None:
    seed, trials = sys.argv[1], int(sys.argv[2])
    with connect(_URI, 30.0) as connection:
        judge = Judge(connection)
        if len(sys.argv) > 4:
            running(judge, seed, trials, sys.argv[3], int(sys.argv[4]))
        elif len(sys.argv) > 3:
            of_guest(judge, seed, trials, sys.argv[3])
        else:
            defined(judge, seed, trials)
    for reason, count in judge.reasons.most_common():
        print(f"refused {count} times: ...{reason}", file=sys.stderr)
    print(json.dumps({"outcomes": judge.outcomes, "problems": judge.problems}))


if __name__ == "__main__":
    main()
