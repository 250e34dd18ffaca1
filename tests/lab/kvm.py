# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether guests can have KVM here: found out by booting the tiny one.

A machine without /dev/kvm has no KVM, but one with it need not have it either: in a nested virtual
machine the device may open and make a virtual machine, which then crashes at its first
instructions, in its boot loader (kvm-pvm does not emulate the return from an interrupt in protected
mode) or in its kernel. So the guest of the tests is booted, with the qemu of a host's root tree,
until it says that it is ready.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

from . import images, processes, roots
from .errors import Progress
from .paths import cache, locked
from .recipe import SUITES

__all__ = ["trial", "usable"]

_READY = "TINY READY"
_BROKEN = "KVM internal error"  # qemu stays, paused

# With all of the processor's features (max), as guests are given them: an older model may boot
# where that fails. In a mount namespace of its own: the tree is shared, and the device node is not
# the machine's.
_TRIAL = """
set -e
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
mount -t tmpfs -o mode=755 tmpfs "$1/mnt"
mknod -m 600 "$1/dev/kvm" c 10 232
mknod -m 666 "$1/dev/null" c 1 3
mknod -m 666 "$1/dev/urandom" c 1 9
touch "$1/mnt/tiny.qcow2"
mount --bind "$2" "$1/mnt/tiny.qcow2"
export TMPDIR=/mnt
exec chroot "$1" qemu-system-x86_64 -accel "$3" -cpu max -m 128 -nodefaults -display none \
  -no-reboot -serial stdio -drive file=/mnt/tiny.qcow2,format=qcow2,if=virtio,snapshot=on
"""


def trial(root: Path, accelerator: str, limit: float = 60) -> str | None:
    """Boot the tiny guest with the qemu of a root tree.

    :param accelerator: qemu's name: ``kvm`` or ``tcg``.
    :param limit: seconds until the guest has to be ready.
    :returns: None when it was, else what went wrong.
    """
    command = [
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"),
        *("--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"),
        *("bash", "-c", _TRIAL, "_", str(root), str(images.image("tiny")), accelerator),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        over = threading.Timer(limit, process.kill)
        over.start()
        said = ""
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if _READY in line:
                    return None
                said += line
                if _BROKEN in line:
                    break
        finally:
            in_time = over.is_alive()
            over.cancel()
            process.kill()
    end = "failed" if in_time else f"was not ready within {limit:g} s"
    return f"the trial guest {end}: {' '.join(said.split())[:300] or 'it said nothing'}"


def usable(progress: Progress) -> bool:
    """Whether hosts get /dev/kvm; tried once each time the machine is started, with each guest."""
    note = cache() / "kvm.json"
    asked = {"boot": processes.boot_id(), "guest": images.recipe_digest("tiny")}
    with locked(cache() / "locks" / "kvm"):
        try:
            known = json.loads(note.read_text())
        except (OSError, ValueError):
            known = {}
        if {name: known.get(name) for name in asked} != asked:
            if not os.path.exists("/dev/kvm"):
                why: str | None = "there is no /dev/kvm"
            else:
                why = trial(roots.ensure(SUITES[0], progress=progress), "kvm")
            known = {**asked, "why_not": why}
            new = note.with_suffix(".new")
            new.write_text(json.dumps(known))
            os.replace(new, note)
            progress("KVM: a trial guest ran" if why is None else f"no KVM: {why}")
    return known["why_not"] is None
