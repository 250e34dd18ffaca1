# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One VM that a call waits for: what libvirt, its agent and its console report about it, and what
follows from that: the outcome of its first boot, and whether it still needs its seed medium.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
import typing as t

from ..._errors import DeadlineExceeded, FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_NO_DOMAIN
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.ip import usable
from ..base.metadata import Metadata
from ..base.states import reason_name, state_name
from ..hosts import domain_info
from ..hosts import read_addresses as addresses
from ..hosts import read_neighbours as neighbours
from ..hosts import read_serial_output as consoles
from ..hosts import serial_output as console
from ..seed import first_boot
from . import effects_medium as seed_medium
from . import read_ssh as ssh

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import NicEntry

# In order of trust, most trusted first
SOURCES = ("static", "lease", "agent", "neighbour", "console")
CONSOLE_LINES = 30
NOT_KNOWN = (
    "the outcome of its first boot is unknown: {}; check inside the guest (with cloud-init:"
    " cloud-init status --long)"
)
RESTARTS = "its commands restart it"
SAYS_NOTHING = "its console does not mention it"

_RUNNING = ("running", "blocked", "nostate")
# Paused for a reason that passes by itself
_PASSING = ("migration", "save", "dump", "snapshot", "starting_up", "postcopy", "from_snapshot")
_AGENT_SECONDS = 6.0  # libvirt itself waits 5 for an agent to begin to talk
_PORT = 22
_MOST_ADDRESSES = 4  # to try


@dataclass
class FirstBoot:
    """``noted`` is the record in the metadata; ``begun`` and ``errors`` are from the console."""

    noted: str | None = None
    begun: bool = False
    errors: list[str] | None = None

    def see(self, noted: str | None, console: str) -> None:
        """Update the state from the metadata and the console."""
        self.noted = noted
        if noted in (first_boot.PENDING, first_boot.WRITTEN):
            self.begun = first_boot.begun(console)
            self.errors = first_boot.errors(console)

    @property
    def goes_on(self) -> bool:
        """Whether its end will be reported, and has not been yet."""
        written = self.noted == first_boot.WRITTEN
        return (written or (self.noted == first_boot.PENDING and self.begun)) and (
            self.errors is None
        )

    @property
    def failure(self) -> str | None:
        """The failure, if there was one."""
        if self.noted is not None and self.noted.startswith(first_boot.FAILED):
            return self.noted[len(first_boot.FAILED) :]
        return "; ".join(self.errors) if self.errors else None

    @property
    def remark(self) -> str:
        """The message about the first boot of a VM that responds."""
        if self.failure is not None:
            return (
                f"its first boot failed: {self.failure}. The VM is left as it is; recreate it"
                " (virt_purge), or fix it inside and run virt_seed with state absent for it"
            )
        if self.noted == first_boot.UNKNOWN:
            return NOT_KNOWN.format(RESTARTS)
        if self.noted == first_boot.PENDING and not self.begun:
            return NOT_KNOWN.format(SAYS_NOTHING)
        return ""

    def settle(self, connection: Connection, dom: VirDomain) -> None:
        """Record the failure, or that there is nothing more to find out."""
        failure = self.failure
        wanted = None if failure is None else f"{first_boot.FAILED}{failure}"
        if self.noted == wanted:
            return
        stored = lookup.read_metadata(connection, dom)
        if stored is None or stored.phase is not None or stored.first_boot is None:
            return
        active = bool(connection.call(f"read the state of {dom.name()}", dom.isActive))
        stored = dataclasses.replace(stored, first_boot=wanted)
        seed_medium.write(connection, dom, stored, active=active)


class WaitedGuest:
    """What is known of one VM. A thread of its own updates it; the waiting thread only reads."""

    def __init__(self, connection: Connection, agents: Connection, dom: VirDomain) -> None:
        self.connection = connection
        self.agents = agents
        self.dom = dom
        self.name = str(dom.name())
        self.state: str | None = None
        self.reason: str | None = None
        self.ended: str | None = None  # why waiting for it is over, other than by a response
        self.nics: list[NicEntry] = []
        self.agent_note = "no guest agent is connected"
        self.note = ""  # the error of the last observation
        self.host_address: str | None = None  # an address that it claims, but this machine has
        self.host_key: str | None = None  # that it was seeded with
        self.has_medium = False  # its seed medium still exists
        self.first_boot = FirstBoot()
        self.looked = 0.0  # when the last observation began
        self._found: dict[str, tuple[str, ...]] = {}
        # Seconds for which its console was seen at a login prompt without cloud-init
        self.idle: float | None = None
        self._idle_log: tuple[int, int] | None = None  # what the log was then: it does not grow
        self._idle_since = 0.0
        self._logs: list[str] = []
        self._log: str | None = None  # the one with something in it
        self._stopped = 0
        self._agent_hangs = False

    @property
    def needs_seed(self) -> bool:
        """Whether it has been given a seed, and has not been seen to have applied it."""
        return self.host_key is not None and self.has_medium

    @property
    def macs(self) -> list[str]:
        """MAC addresses of its NICs, in the order of the definition."""
        return [str(nic["mac"]).lower() for nic in self.nics if nic["mac"]]

    @property
    def bridges(self) -> list[tuple[str, str]]:
        """Bridge on this machine and MAC address of each NIC that is on a bridge."""
        pairs = [(neighbours.bridge_of(nic["target"] or ""), nic["mac"]) for nic in self.nics]
        return [(bridge, mac.lower()) for bridge, mac in pairs if bridge and mac]

    def candidates(self, table: t.Mapping[str, str]) -> dict[str, str]:
        """Source by address, in order of trust, IPv4 first in each source.

        ``table`` is the neighbour table.
        """
        by_source: dict[str, t.Sequence[str]] = dict(self._found)
        order = {mac: index for index, mac in enumerate(self.macs)}
        # an address from another source is in the table because we tried it
        known = {address for some in by_source.values() for address in some}
        from_host = [
            (order[mac], address)
            for address, mac in table.items()
            if mac in order and address not in known
        ]
        by_source["neighbour"] = [address for _dummy, address in sorted(from_host)]
        sources: dict[str, str] = {}
        for source in SOURCES:
            some = (usable(address) for address in by_source.get(source, ()))
            for address in sorted(filter(None, some), key=lambda address: ":" in address):
                if self.connection.local and addresses.is_local(address):
                    self.host_address = address
                else:
                    sources.setdefault(address, source)
        return sources

    def look(self) -> None:
        """Read state, definition and addresses again. Never raises a FleetVirtError."""
        try:
            self._look()
            self.note = ""
        except FleetVirtError as error:
            if isinstance(error, LibvirtFailure) and error.code == ERR_NO_DOMAIN:
                self.ended = "it no longer exists on this hypervisor: removed or migrated meanwhile"
            self.note = str(error)

    def _look(self) -> None:
        begun = time.monotonic()
        call, name = self.connection.call, self.name
        numbers = call(f"read the state of {name}", self.dom.state, 0)
        self.state = state_name(numbers[0])
        self.reason = reason_name(self.state, numbers[1])
        facts = domain_info.parse(call(f"read {name}", self.dom.XMLDesc, 0), f"domain {name}")
        self._logs = [entry["log"] for entry in facts["consoles"] if entry["log"]]
        self.nics = facts["nics"]
        self.host_key = facts["metadata"]["host_key"]
        self.has_medium = any(volume["role"] == "seed" for volume in facts["metadata"]["volumes"])
        if not self._alive():
            return
        self._found["static"] = tuple(facts["metadata"]["addresses"])
        self._ask_agent(facts["agent"])
        if any(nic["type"] == "network" for nic in self.nics):
            leases = call(f"read the leases of {name}", addresses.from_leases, self.dom)
            self._found["lease"] = self._of_nics(leases)
        text = self._console()
        self.first_boot.see(facts["metadata"]["first_boot"], text)
        self._measure_idle(text)
        self.looked = begun
        self._found["console"] = tuple(console.addresses(text, self.macs))

    def _alive(self) -> bool:
        """Whether it is running; if it is not twice in a row, waiting for it is over."""
        passing = self.state == "paused" and self.reason in _PASSING
        if self.state in _RUNNING or self.state == "shutdown" or passing:
            self._stopped = 0
            return True
        self._stopped += 1
        if self._stopped > 1:
            self.ended = f"it is not running: {self.state} ({self.reason})"
        return False

    def _ask_agent(self, connected: bool) -> None:
        if not connected:
            self.agent_note = "no guest agent is connected"
        if not connected or self._agent_hangs:
            return
        what = f"addresses of {self.name} from its guest agent"
        seconds = min(self.connection.timeout, _AGENT_SECONDS)
        try:
            answer = self.agents.call(what, self._agent_addresses, seconds=seconds)
        except (DeadlineExceeded, deadline.TooManyHang) as error:
            self._agent_hangs = True
            self.agent_note = str(error)
        except LibvirtFailure as error:
            if error.code == ERR_NO_DOMAIN:
                raise
            self.agent_note = f"the guest agent does not respond ({error})"
        else:
            self._found["agent"] = self._of_nics(answer)
            self.agent_note = "the guest agent reports none"

    def _agent_addresses(self) -> dict[str, list[str]]:
        return addresses.from_agent(self.agents.conn.lookupByUUIDString(self.dom.UUIDString()))

    def _of_nics(self, by_mac: t.Mapping[str, t.Sequence[str]]) -> tuple[str, ...]:
        return tuple(address for mac in self.macs for address in by_mac.get(mac, ()))

    def _measure_idle(self, text: str) -> None:
        """Measure how long its console has been at a login prompt without cloud-init output.

        The age of the log would say it at once, but a clock that is set meanwhile would add to it:
        on a machine that has just booted that is usual.
        """
        log = None
        if self._log is not None and first_boot.is_ignored(text):
            with contextlib.suppress(OSError):
                status = os.stat(self._log)
                log = (status.st_size, status.st_mtime_ns)
        now = time.monotonic()
        if log is None or log != self._idle_log:
            self._idle_log, self._idle_since = log, now
        self.idle = None if log is None else now - self._idle_since

    def console_end(self) -> list[str]:
        """The last lines of its console, empty if they cannot be read."""
        try:
            text = deadline.call(self._console, seconds=2.0, what=f"console of {self.name}")
        except FleetVirtError:
            return []
        return console.end(text, CONSOLE_LINES)

    def _console(self) -> str:
        """The end of the first console log on this machine that is not empty."""
        path, text = consoles.first_log(self._logs) if self.connection.local else ("", "")
        if text:
            self._log = path
        return text


def consumed_medium(connection: Connection, dom: VirDomain, stored: Metadata | None) -> str | None:
    """The name of a medium that is no longer needed: the VM presents the host key from it. Does not
    wait.

    None if there is none, or that is unknown now.
    """
    media = [volume.name for volume in stored.volumes if volume.role == "seed"] if stored else []
    if stored is None or not media or not stored.host_key or stored.phase or not connection.local:
        return None
    guest = WaitedGuest(connection, connection, dom)
    guest.look()
    try:
        addresses = guest.candidates(neighbours.table())
        for address in itertools.islice(addresses, _MOST_ADDRESSES):
            if ssh.ask(address, _PORT, stored.host_key) is ssh.Proof.HOLDS:
                return media[0]
    except FleetVirtError:
        return None  # the next call may succeed
    return None
