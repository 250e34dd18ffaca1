# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domains that libvirt tests itself with, out of Debian's source package.

They are downloaded once for each of two folders (10 MB, by apt, whose proxies and mirrors are
used) and unpacked, 12 MB and 4 MB, in the cache folder. They are libvirt's (LGPL-2.1-or-later) and
no part of this project.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.lab import roots

VERSION = "11.3.0"  # Debian 13's
_SHA256 = "6bcb0c42c4580436fea262ced56f68a6afe20f7390b1bea2116718cc034a0283"
_POOL = f"pool/main/libv/libvirt/libvirt_{VERSION}.orig.tar.xz"
DOMAINS = "qemuxmlconfdata"
CPUS = "cputestdata"  # what libvirt made of the CPUs of many real machines
_HELPER = "/usr/lib/apt/apt-helper"


def documents(which: str = DOMAINS) -> Path:
    """A folder of libvirt's documents; what is named alike is what libvirt made of it."""
    more = "" if which == DOMAINS else f"-{which}"
    folder = _tools.cache_folder() / "sources" / f"libvirt-{VERSION}-{_SHA256[:16]}{more}"
    with _tools.locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                _unpack(Path(work), which)
                (Path(work) / "documents").rename(folder)
    return folder


def _unpack(work: Path, which: str) -> None:
    documents = f"libvirt-{VERSION}/tests/{which}/"
    archive, found = work / "libvirt.tar.xz", work / "documents"
    found.mkdir()
    address = f"{roots._mirror()}/{_POOL}"
    _tools.run([_HELPER, "download-file", address, archive, f"SHA256:{_SHA256}"], work)
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(documents)
            if member.isfile() and name != member.name and "/" not in name:
                content = tar.extractfile(member)
                if content is not None and name.endswith(".xml"):
                    with (found / name).open("wb") as out:
                        shutil.copyfileobj(content, out)
