# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's packages as a folder, for a guest image."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from . import roots
from .images_disk import run

__all__ = ["bootstrap"]


def bootstrap(recipe: ModuleType, suite: str, work: Path) -> tuple[Path, dict[str, str]]:
    """Unpack or install the recipe's packages; return the tree and the packages' versions.

    In a process and mount space of its own: mmdebstrap's mounts and children cannot outlive it.
    """
    tree = work / "tree"
    versions = work / "versions"
    if recipe.VARIANT == "extract":  # nothing is installed, so dpkg knows nothing
        query = "dpkg-deb -W --showformat='${Package} ${Version}\\n' \"$deb\""
        listing = f'for deb in "$1"/var/cache/apt/archives/*.deb; do {query}; done > {versions}'
        hook = f"--extract-hook={listing}"
    else:
        query = "dpkg-query --root=\"$1\" -W -f '${Package} ${Version}\\n'"
        hook = f"--customize-hook={query} > {versions}"
    run(
        *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"),
        *("--kill-child=SIGKILL", "mmdebstrap", "--quiet", "--mode=root", "--format=directory"),
        f"--variant={recipe.VARIANT}",
        f"--include={','.join(recipe.PACKAGES)}",
        "--architectures=amd64",
        *(f"--aptopt={option}" for option in roots._apt_options()),
        *recipe.OPTIONS,
        hook,
        *(suite, tree, f"deb {roots._mirror()} {suite} main"),
        limit=1800,
        role=f"{work}:builder",
    )
    pairs = (line.split(" ", 1) for line in sorted(versions.read_text().splitlines()))
    return tree, {pair[0]: pair[1] for pair in pairs}
