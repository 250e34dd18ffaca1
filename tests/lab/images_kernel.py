# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel for the tiny guest that starts in half the time: Debian's source, and few drivers.

Most of what a tiny guest costs, emulated, is the start of Debian's kernel, which is made for all
machines and changes its own code for the one that it finds. A run of the tests starts more than a
hundred such guests. To build a kernel takes ten minutes of a processor, or more: it is kept by its
configuration, and whoever boots a few guests only, such as the demonstration, has Debian's own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import images_cache, images_packages
from .errors import LabError, Progress
from .images_disk import run
from .paths import cache, locked

__all__ = ["VARIABLE", "digest", "kernel", "wanted"]

VARIABLE = "FLEET_VIRT_LAB_KERNEL"  # of the environment, set by the tests
PACKAGES = ("linux-source-6.1",)
VARIANT = "extract"
OPTIONS: tuple[str, ...] = ()
CONFIGURATION = Path(__file__).parent / "guest" / "kernel" / "config"

_FOLDER = "kernels"
_BUILD = ".kernel-"
_SOURCE = "linux-source-6.1"
# Of the source, half of which are drivers that nobody asks for: Kconfig needs their lists of
# choices alone
_UNUSED = (
    *(f"drivers/{name}/*.[ch]" for name in ("gpu", "media", "staging")),
    *(f"drivers/net/{name}/*.[ch]" for name in ("ethernet", "wireless")),
    *("Documentation/*/*", "sound/*.[ch]", "tools/perf/*", "tools/testing/*"),
    "arch/[a-tv-w]*/*.[chS]",
)
_LIMIT = 3600


def wanted() -> bool:
    """Whether the tiny guest is to have this kernel: tests say so in the environment."""
    return bool(os.environ.get(VARIABLE))


def digest() -> str:
    """What the kernel is known by: twelve digits of its source's name and its configuration."""
    return hashlib.sha256(_SOURCE.encode() + CONFIGURATION.read_bytes()).hexdigest()[:12]


def kernel(suite: str, progress: Progress) -> Path:
    """The kernel's file (bzImage), built first if it has not been built yet.

    :param suite: the Debian release whose source it is.
    :raises LabError: a program is missing or failed, or the kernel lacks what is configured.
    """
    folder = cache() / _FOLDER
    kept = folder / f"{suite}-{digest()}"
    built = kept / "bzImage"
    with locked(cache() / "locks" / "kernel"):
        if not built.exists():
            folder.mkdir(parents=True, exist_ok=True)
            images_cache.clean(folder.glob(f"{_BUILD}*"), folder.glob("[!.]*"))
            progress("building the tiny guest's kernel, once; this takes minutes")
            work = Path(tempfile.mkdtemp(prefix=_BUILD, dir=folder))
            try:
                kept.mkdir(exist_ok=True)
                os.replace(_build(suite, work), built)
            finally:
                shutil.rmtree(work)
        os.utime(kept)  # for images_cache
    return built


def _build(suite: str, work: Path) -> Path:
    tree, _versions = images_packages.bootstrap(sys.modules[__name__], suite, work)
    archive = tree / "usr/src" / f"{_SOURCE}.tar.xz"
    unused = (f"--exclude={_SOURCE}/{pattern}" for pattern in _UNUSED)
    role = f"{work}:builder"
    run("tar", "-xJf", archive, "-C", work, *unused, limit=_LIMIT, role=role)
    source = work / _SOURCE
    make = ("make", "-s", "-C", source, "ARCH=x86_64")
    run(*make, f"KCONFIG_ALLCONFIG={CONFIGURATION}", "allnoconfig", limit=_LIMIT, role=role)
    _check(CONFIGURATION.read_text("utf-8"), (source / ".config").read_text("utf-8"))
    run(*make, f"-j{os.cpu_count() or 1}", "bzImage", limit=_LIMIT, role=role)
    return source / "arch/x86/boot/bzImage"


def _check(asked: str, made: str) -> None:
    """Kconfig drops silently what depends on something that is left out."""
    lines = made.splitlines()
    lost = [one for one in asked.splitlines() if one.startswith("CONFIG_") and one not in lines]
    if lost:
        raise LabError(f"the kernel would lack {', '.join(lost)}: what do they depend on?")
