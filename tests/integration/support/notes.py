# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor noted of others, taken away: for tests that make a fleet of one of several."""

from __future__ import annotations

FORGET = """
rm -f /var/lib/libvirt/fleet-notes/*
[ ! -e /etc/libvirt/storage/fleet-notes.xml ] || virsh pool-refresh fleet-notes >/dev/null
"""
