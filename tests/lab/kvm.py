# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether guests can have KVM here: found out by booting one.

A machine without /dev/kvm has no KVM, but one with it need not have it either: in a nested virtual
machine the device may open and even make a virtual machine, which then crashes at its first
instructions. So a small guest is run with the qemu of a host's root tree: a boot sector that goes
the way a kernel goes (real mode, page tables, long mode), counts for a while and reports success.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from . import processes, roots
from .errors import Progress
from .paths import cache, locked
from .recipe import SUITES

__all__ = ["SECTOR", "trial", "usable"]

# GNU as, Intel syntax, linked at 0x7c00; what it leaves of 512 bytes is zero but for the signature.
#   .code16  cli; xor ax,ax; mov ds,ax; mov es,ax; mov ss,ax; mov sp,0x7c00; ljmp 0,offset here
#   here:    cld; mov di,0x1000; mov cx,0x1800; rep stosw        three empty page tables
#            mov word ptr [0x1000],0x2003; mov word ptr [0x2000],0x3003
#            mov word ptr [0x3000],0x0083                        one page of 2 MiB, as it is
#            mov eax,0x1000; mov cr3,eax; mov eax,cr4; or al,0x20; mov cr4,eax          PAE
#            mov ecx,0xc0000080; rdmsr; or ah,1; wrmsr                                  LME
#            lgdt [gdtr]; mov eax,cr0; or eax,0x80000001; mov cr0,eax                   PG, PE
#            ljmp 8,offset long
#   .code64
#   long:    xor eax,eax; cpuid; mov ecx,1000000; xor eax,eax
#   again:   inc eax; dec ecx; jnz again; cmp eax,1000000; jne fail
#            mov al,0x31; out 0xf4,al                            qemu ends with 2 * 0x31 + 1
#   fail:    hlt; jmp fail
#   .align 8; gdt: .quad 0; .quad 0x00209a0000000000; gdtr: .word 15; .long gdt
SECTOR = (
    bytes.fromhex(
        "fa31c08ed88ec08ed0bc007cea117c0000"
        "fcbf0010b90018f3abc70600100320c70600200330c70600308300"
        "66b8001000000f22d80f20e00c200f22e066b9800000c00f3280cc010f300f0116907c"
        "0f20c0660d010000800f22c0ea607c0800"
        "31c00fa2b940420f0031c0ffc0ffc975fa3d40420f007504b031e6f4f4ebfd"
    ).ljust(0x80, b"\0")
    + bytes(8)
    + 0x00209A0000000000.to_bytes(8, "little")
    + b"\x0f\x00\x80\x7c"
).ljust(510, b"\0") + b"\x55\xaa"

_SUCCESS = 2 * 0x31 + 1

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
cp "$2" "$1/mnt/sector"
exec chroot "$1" qemu-system-x86_64 -accel "$3" -cpu max -m 32 -nodefaults -display none \
  -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4 \
  -drive file=/mnt/sector,format=raw,if=ide,snapshot=off
"""


def trial(root: Path, accelerator: str, limit: float = 20) -> str | None:
    """Boot the small guest with the qemu of a root tree.

    :param accelerator: qemu's name: ``kvm`` or ``tcg``.
    :returns: None when it ran to its end, else what went wrong.
    """
    with tempfile.NamedTemporaryFile() as sector:
        sector.write(SECTOR)
        sector.flush()
        command = [
            *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"),
            *("--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"),
            *("bash", "-c", _TRIAL, "_", str(root), sector.name, accelerator),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the trial guest did not end within {limit:g} s"
    if done.returncode == _SUCCESS:
        return None
    said = " ".join((done.stderr or done.stdout).split())[:300]
    return f"the trial guest failed (qemu ended with {done.returncode}): {said}"


def usable(progress: Progress) -> bool:
    """Whether hosts get /dev/kvm; asked once each time the machine is started."""
    note = cache() / "kvm.json"
    with locked(cache() / "locks" / "kvm"):
        try:
            known = json.loads(note.read_text())
        except (OSError, ValueError):
            known = {}
        if known.get("boot") != processes.boot_id():
            if not os.path.exists("/dev/kvm"):
                why: str | None = "there is no /dev/kvm"
            else:
                why = trial(roots.ensure(SUITES[0], progress=progress), "kvm")
            known = {"boot": processes.boot_id(), "why_not": why}
            new = note.with_suffix(".new")
            new.write_text(json.dumps(known))
            os.replace(new, note)
            progress("KVM: a trial guest ran" if why is None else f"no KVM: {why}")
    return known["why_not"] is None
