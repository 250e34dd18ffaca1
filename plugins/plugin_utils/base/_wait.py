# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of a wait that consists of many short calls, and its messages."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.facts import (
    Waited,
    WaitingVm,
)

_FROM = {
    "static": "from its metadata",
    "agent": "from the guest agent",
    "lease": "from libvirt's lease",
    "neighbour": "from the neighbour table",
    "console": "from its console",
}


class Progress:
    """The entries of ``virt_wait``'s result so far, in the order of ``names``.

    ``until`` is what is waited for. ``earlier`` are the entries of a previous wait, whose addresses
    are not reported again.
    """

    def __init__(
        self,
        host: str,
        names: t.Sequence[str],
        until: str = "ssh",
        earlier: t.Iterable[t.Mapping[str, object]] = (),
    ) -> None:
        self.host = host
        self.until = until
        self.entries: dict[str, WaitingVm | None] = dict.fromkeys(names)
        self.pending = list(self.entries)
        self.reported = {str(entry.get("name")): entry.get("address") for entry in earlier}

    def begin(self, port: int, seconds: float) -> list[str]:
        """Messages that say what is waited for, and for how long at most."""
        what = "it has an address" if self.until == "address" else f"it answers on port {port}"
        limit = f"waiting until {what} (at most {seconds:g} s)"
        return [f"{name} on {self.host}: {limit}" for name in self.entries]

    def take(self, result: Waited, offset: float) -> list[str]:
        """Store the result of a call begun ``offset`` seconds after the first; returns the news."""
        news: list[str] = []
        for vm in result.get("vms") or ():
            entry: WaitingVm = {**vm}
            if vm["seconds"] is not None:
                entry["seconds"] = round(vm["seconds"] + offset, 1)
            news += self._news(entry)
            if entry["changed"]:
                news.append(f"{entry['name']}: its seed medium was removed")
            elif entry["answered"] and entry["msg"]:
                news.append(f"{entry['name']}: {entry['msg']}")
            self.entries[entry["name"]] = entry
        self.pending = list(result.get("waiting") or ())
        return news

    def _news(self, entry: WaitingVm) -> list[str]:
        name = entry["name"]
        news = []
        if entry["address"] and self.reported.get(name) != entry["address"]:
            self.reported[name] = entry["address"]
            origin = _FROM.get(entry["source"] or "", "")
            news.append(f"{name}: address {entry['address']} {origin}")
        if entry["answered"] and self.until == "ssh":
            news.append(f"{name}: answers after {entry['seconds'] or 0:g} s")
        return news

    def vms(self) -> list[WaitingVm]:
        """The entries of all that were ever reported."""
        return [entry for entry in self.entries.values() if entry is not None]

    def failure(self) -> str | None:
        """What is missing for VMs that do not respond; None if all do."""
        missing = [f"{vm['name']}: {vm['msg']}" for vm in self.vms() if not vm["answered"]]
        return "; ".join(missing) or None

    def consoles(self) -> list[str]:
        """The VMs that did not respond, with the last lines of their consoles."""
        lines: list[str] = []
        for vm in self.vms():
            if vm["answered"]:
                continue
            silent = "" if vm.get("first_boot") else " does not answer"
            lines.append(f"{vm['name']} on {self.host}{silent}: {vm['msg']}")
            if vm["console"]:
                lines.append(f"{vm['name']}: last lines of its console:")
                lines += [f"  {vm['name']} | {line}" for line in vm["console"]]
            else:
                lines.append(f"{vm['name']}: its console shows nothing")
        return lines
