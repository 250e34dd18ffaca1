# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what copies lose and keep, against the operations of virt-sysprep itself."""

from __future__ import annotations

from ansible_collections.fleet.virt.tests import sysprep_operations
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Unpacked and not installed: its dependencies are a hundred packages, for the guests that it opens.
# The laboratory's Debian 13 lacks these of its libraries.
_LIST = """
set -e
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
apt-get -q update >&2
apt-get -q download guestfs-tools libguestfs0t64 libfuse2t64 libosinfo-1.0-0 libsoup-3.0-0 \\
  libxslt1.1 >&2
for package in *.deb; do dpkg-deb -x "$package" .; done
export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
usr/bin/virt-sysprep --list-operations
"""


def test_operations_of_virt_sysprep_are_those_of_the_table(lab: Laboratory) -> None:
    listed = lab.ssh("hv2", _LIST, timeout=300).stdout
    operations = {line.split()[0] for line in listed.splitlines()}
    table = {*sysprep_operations.REMOVED, *sysprep_operations.LEFT}
    assert operations == table
