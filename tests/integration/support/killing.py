# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending a program the way a power cut of its machine would, and a module on a hypervisor."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .process import Process

# Waits until Ansible has begun the module there, for so many times; its process is $pid then. The
# shell that Ansible starts it with has the same words in its command line, and the module outlives
# that; what the module starts has them for a moment.
_BEGUN = r"""
pid=
for turn in $(seq {turn}); do
  while [ -n "$pid" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
  for try in $(seq 600); do
    pid=$(pgrep -o -f '^[^ ]*python3 [^ ]*AnsiballZ_{module}.py') && break
    sleep 0.02
  done
done
[ -n "$pid" ] || exit 1
"""
KILL = "kill -9 $pid 2>/dev/null && echo killed; :"
_LIFETIME = r"""
begun=$(date +%s.%N)
while kill -0 $pid 2>/dev/null; do sleep 0.01; done
echo "$begun $(date +%s.%N)"
"""


def killer(module: str, after: float, turn: int = 1) -> str:
    """For the shell of a hypervisor: kill the module that is begun next, so many seconds after
    that. It says ``killed`` unless the module had ended. ``turn``: as of :func:`begun`."""
    return begun(module, f"sleep {after:.2f}; {KILL}", turn)


def lifetime(module: str, turn: int = 1) -> str:
    """For the same: when the module that is begun next began and ended, in seconds."""
    return begun(module, _LIFETIME, turn)


def begun(module: str, script: str, turn: int = 1) -> str:
    """For the same: do ``script`` as soon as the module is begun, whose process is $pid there.

    ``turn``: 2 for its second run. ``virt_init`` is run twice if there are other hypervisors: it
    claims, and then makes what it claimed.
    """
    return _BEGUN.format(module=module, turn=turn) + script


def meanwhile(run: Process, lab: Laboratory, host: str, script: str) -> str:
    """What the script says on the hypervisor while Ansible runs a module there, to its end.

    Without ANSIBLE_PIPELINING the module's name is in its command line, for :func:`begun`.
    """
    with run:
        try:
            said = lab.ssh(host, script, timeout=300).stdout
            run.wait(timeout=120)
        finally:
            kill_tree(run.pid)
    return str(said)


def seconds(said: str) -> float:
    """How long it took, of what :func:`lifetime` said."""
    begun, ended = map(float, said.split())
    return ended - begun


def kill_tree(top: int) -> None:
    """Kill a process and all that it started, at once: Ansible's workers have own sessions.

    They are stopped first: the kernel's list of children is complete only if nothing ends or begins
    meanwhile, and a worker that is missed would go on without its playbook.
    """
    doomed = [top]
    for pid in doomed:
        _send(pid, signal.SIGSTOP)
        doomed += [child for child in _children(pid) if child not in doomed]
    for pid in doomed:
        _send(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """The processes that a stopped one has started, once it has stopped."""
    found: list[int] = []
    deadline = time.monotonic() + 5
    while not _stopped(pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text(encoding="ascii").split()]
    return found


def _stopped(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "TZX"


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


# For Ansible it is the Python of a hypervisor. Its folder says which module dies there, in which of
# its runs, and whether before it does anything, when it is done and has not said so yet, or while a
# VM is noted as moving. What Ansible sends says of which module it is.
_MORTAL = r"""#!/bin/sh
python=PYTHON
[ $# -eq 0 ] || exec $python "$@"
folder=${0%/*}
plan=${folder##*/}
sent=$(mktemp)
trap 'rm -f "$sent"' EXIT
cat >"$sent"
grep -q "^ansible_module='fleet.virt.${plan%%.*}',\$" "$sent" || { $python <"$sent"; exit; }
plan=${plan#*.}
echo >>"$folder/runs"
[ "$(wc -l <"$folder/runs")" -eq "${plan%%.*}" ] || { $python <"$sent"; exit; }
case "$plan" in
  *.after.*) $python <"$sent" >/dev/null 2>&1 ;;
  *.moving.*)
    $python <"$sent" >/dev/null 2>&1 &
    while kill -0 $! 2>/dev/null; do
      for name in $(virsh -q list --all --name); do
        ! virsh -q dumpxml --inactive "$name" 2>/dev/null | grep -q '>migrating<' || kill -9 $!
      done
    done
    ;;
esac
rm "$sent"
kill -9 $$
"""


def mortal(lab: Laboratory, host: str, *plans: str) -> list[str]:
    """Interpreters for Ansible, one for each of ``plans``: ``MODULE.RUN.before``, or ``after``, or
    ``moving``.

    That run of the module ends on this hypervisor with SIGKILL; the others' Python is as it was.
    They are for one run of Ansible each, with pipelining, so that modules are their input.
    """
    names = [f"{plan}.{secrets.token_hex(4)}" for plan in plans]
    folders = " ".join(f"/run/killing/{name}" for name in names)
    for one in lab.hosts:
        if one.state == "running" and not one.bare:
            kills = _MORTAL.replace("PYTHON", one.python)
            lab.ssh(
                one.name,
                f"umask 022; mkdir -p {folders}; cat >/run/killing/python3;"
                f" chmod 755 /run/killing/python3;"
                f" for folder in {folders}; do cp -p /run/killing/python3 $folder; done",
                input=kills if one.name == host else f'#!/bin/sh\nexec {one.python} "$@"\n',
            )
    return [f"/run/killing/{name}/python3" for name in names]


# Beside the Python of a module: it writes down each effect of the module before that takes place,
# and ends it with SIGKILL before the one that the plan says: the number of effects after the first
# that fits the sign. Effects: calls of libvirt that change something, changes of files, programs.
_COUNTING = r"""
import os
import re
import sys

folder = os.environ.pop("FLEET_VIRT_KILLING")
with open(folder + "/plan") as file:
    sign, number = file.read().split("\n")[:2]
pattern, number, count = re.compile(sign), int(number), 0
notes = os.open(folder + "/effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
owner = os.getpid()
apart = ("/run/killing/", "/dev/", "/proc/", "/root/.ansible", "/tmp/", "/var/lib/lab-python")


def effect(text):
    global count
    if os.getpid() != owner:
        return
    if count or pattern.search(text):
        count += 1
        os.write(notes, (text.replace("\n", " ")[:300] + "\n").encode())
        if count == number:
            os.close(os.open(folder + "/killed", os.O_WRONLY | os.O_CREAT))
            os.kill(owner, 9)


def audit(event, given):
    if event == "open":
        if isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            name = str(given[0])
            if name[:1] == "/" and not name.startswith(apart) and name[-5:] != ".lock":
                effect("open " + name)
    elif event in ("os.rename", "os.link", "os.symlink"):
        effect("%s %s %s" % (event, given[0], given[1]))
    elif event in ("os.remove", "os.rmdir", "os.truncate", "os.mkdir"):
        if not str(given[0]).startswith("/tmp/"):
            effect("%s %s" % (event, given[0]))
    elif event == "subprocess.Popen":
        effect("program %s" % (given[1],))


def watch(kind, name):
    old = getattr(kind, name, None)
    if old is None:
        return

    def called(self, *args, **more):
        effect("libvirt %s %s" % (name, " ".join(str(word) for word in args)))
        return old(self, *args, **more)

    setattr(kind, name, called)


import libvirt

for name in ("defineXML", "defineXMLFlags", "storagePoolDefineXML", "storagePoolCreateXML",
             "nwfilterDefineXML", "secretDefineXML"):
    watch(libvirt.virConnect, name)
for name in ("setMetadata", "create", "createWithFlags", "undefine", "undefineFlags",
             "attachDeviceFlags", "updateDeviceFlags", "detachDeviceFlags", "setAutostart",
             "destroy", "destroyFlags", "migrateToURI3", "rename", "snapshotCreateXML",
             "blockCopy", "blockCommit", "blockRebase", "blockJobAbort", "backupBegin", "abortJob",
             "suspend", "resume", "managedSave", "blockResize"):
    watch(libvirt.virDomain, name)
for name in ("createXML", "createXMLFrom", "create", "destroy", "undefine", "setAutostart"):
    watch(libvirt.virStoragePool, name)
for name in ("delete", "resize", "wipe", "upload"):
    watch(libvirt.virStorageVol, name)
sys.addaudithook(audit)
"""
_AT_EFFECT = r"""#!/bin/sh
python=@PYTHON@
[ $# -eq 0 ] || exec $python "$@"
folder=${0%/*}
sent=$(mktemp)
trap 'rm -f "$sent"' EXIT
cat >"$sent"
module=$(cat "$folder/module")
grep -q "^ansible_module='fleet.virt.$module',\$" "$sent" || { $python <"$sent"; exit; }
echo >>"$folder/runs"
run=$(cat "$folder/run")
[ "$run" -eq 0 ] || [ "$(wc -l <"$folder/runs")" -eq "$run" ] || { $python <"$sent"; exit; }
FLEET_VIRT_KILLING=$folder PYTHONPATH=$folder /usr/bin/python3 <"$sent"
status=$?
rm "$sent"
[ $status -lt 128 ] || kill -9 $$
exit $status
"""


class Mortal:
    """A Python for one run of Ansible, with pipelining, in which a module dies on one hypervisor.

    ``run``: in which of its runs there, 0 for any. It dies before the effect of that ``number``,
    counted from the first whose text has the regular expression ``sign``; never with 0, so that the
    effects are known.
    """

    def __init__(
        self, lab: Laboratory, host: str, module: str, sign: str = "", number: int = 0, run: int = 0
    ) -> None:
        self.lab, self.host = lab, host
        self.folder = f"/run/killing/{module}.{secrets.token_hex(4)}"
        for one in lab.hosts:
            if one.state == "running" and not one.bare:
                mortal = _AT_EFFECT.replace("@PYTHON@", one.python)
                plain = f'#!/bin/sh\nexec {one.python} "$@"\n'
                lab.ssh(
                    one.name,
                    f"umask 022; mkdir -p {self.folder}; cd {self.folder}; cat >python3;"
                    " chmod 755 python3",
                    input=mortal if one.name == host else plain,
                )
        for name, text in {
            "sitecustomize.py": _COUNTING,
            "plan": f"{sign}\n{number}\n",
            "module": module,
            "run": str(run),
        }.items():
            lab.ssh(host, f"cat >{self.folder}/{name}", input=text)

    @property
    def interpreter(self) -> str:
        """What ``ansible_python_interpreter`` is for that run."""
        return f"{self.folder}/python3"

    @property
    def killed(self) -> bool:
        """Whether one was killed. Others of that run of Ansible may have gone on after it."""
        asked = self.lab.ssh(self.host, f"test -e {self.folder}/killed", check=False)
        return bool(asked.returncode == 0)

    def effects(self) -> list[str]:
        """The effects that were counted, by each run of the module from its first sign on."""
        shown = self.lab.ssh(self.host, f"cat {self.folder}/effects 2>/dev/null || :").stdout
        return str(shown).splitlines()
