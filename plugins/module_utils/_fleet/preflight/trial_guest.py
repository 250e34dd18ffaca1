# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The smallest guest that shows whether KVM works, and the reading of its result.

/dev/kvm may exist, open, and even create a virtual machine, and yet guests crash at their first
instructions, for example with incomplete nested virtualization. Only a trial shows it. This guest
boots like a boot loader and a kernel (real mode, protected mode, page tables, long mode, a return
from an interrupt in both), counts for a while, and ends QEMU with a specific exit status; it takes
a quarter of a second. kvm-pvm, for example, goes through all modes and cannot return.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .facts import Trial


# GNU as, Intel syntax, linked at 0x7c00; what it leaves of 512 bytes is zero but for the signature.
#   .code16  cli; xor ax,ax; mov ds,ax; mov es,ax; mov ss,ax; mov sp,0x7c00; ljmp 0,offset here
#   here:    cld; mov di,0x1000; mov cx,0x1800; rep stosw        three empty page tables
#            mov word ptr [0x1000],0x2003; mov word ptr [0x2000],0x3003
#            mov word ptr [0x3000],0x0083                        one page of 2 MiB, as it is
#            lgdt [gdtr]; mov eax,cr0; or al,1; mov cr0,eax      PE
#            ljmp 8,offset protected
#   .code32
#   protected: mov ax,0x10; mov ss,ax
#            pushf; push 8; push offset returned; iretd          as boot loaders do
#   returned: mov eax,0x1000; mov cr3,eax; mov eax,cr4; or al,0x20; mov cr4,eax        PAE
#            mov ecx,0xc0000080; rdmsr; or ah,1; wrmsr                                  LME
#            mov eax,cr0; or eax,0x80000000; mov cr0,eax                                PG
#            ljmp 0x18,offset long
#   .code64
#   long:    mov ax,0x10; mov ss,ax
#            push 0x10; push 0x7c00; pushf; push 0x18; push offset counting; iretq     as kernels do
#   counting: xor eax,eax; cpuid; mov ecx,1000000; xor eax,eax
#   again:   inc eax; dec ecx; jnz again; cmp eax,1000000; jne fail
#            mov al,0x31; out 0xf4,al                            qemu ends with 2 * 0x31 + 1
#   fail:    hlt; jmp fail
#   .align 8
#   gdt:     .quad 0; .quad 0x00cf9a000000ffff; .quad 0x00cf92000000ffff; .quad 0x00209a0000000000
#   gdtr:    .word 31; .long gdt
SECTOR = (
    bytes.fromhex(
        "fa31c08ed88ec08ed0bc007cea117c0000"
        "fcbf0010b90018f3abc70600100320c70600200330c706003083"
        "000f0116d87c0f20c00c010f22c0ea3e7c0800"
        "66b810008ed09c6a08684d7c0000cf"
        "b8001000000f22d80f20e00c200f22e0b9800000c00f3280cc010f300f20c00d000000800f22c0ea7b7c00001800"
        "66b810008ed06a1068007c00009c6a1868927c000048cf"
        "31c00fa2b940420f0031c0ffc0ffc975fa3d40420f007504b031e6f4f4ebfd"
    ).ljust(0xB8, b"\0")
    + bytes(8)
    + b"".join(
        one.to_bytes(8, "little")
        for one in (0x00CF9A000000FFFF, 0x00CF92000000FFFF, 0x00209A0000000000)
    )
    + b"\x1f\x00\xb8\x7c"
).ljust(510, b"\0") + b"\x55\xaa"

SUCCESS = 2 * 0x31 + 1
# Builds of QEMU without the device that ends it, or without its machine type
_NOT_BUILT_IN = ("is not a valid device model", "unsupported machine type", "No machine")


def arguments(emulator: str, accelerator: str, disk: str) -> list[str]:
    """The command that boots the guest from the file ``disk``.

    It has all of the processor's features (max), as other guests may have: an older CPU model may
    boot where that fails.
    """
    argv = [emulator, "-accel", accelerator, "-machine", "pc", "-cpu", "max", "-m", "32"]
    argv += ["-nodefaults", "-display", "none", "-no-reboot"]
    argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
    return [*argv, "-drive", f"file={disk},format=raw,if=ide,snapshot=off"]


def outcome(status: int, stderr: str) -> Trial:
    """Whether it was ``tried``, and the ``problem`` found; None if it ran to completion."""
    if status == SUCCESS:
        return {"tried": True, "problem": None}
    if any(words in stderr for words in _NOT_BUILT_IN):
        return {"tried": False, "problem": f"this qemu cannot boot the trial guest: {stderr[:200]}"}
    return {
        "tried": True,
        "problem": f"the trial guest failed (qemu ended with {status}): {stderr[:300]}",
    }
