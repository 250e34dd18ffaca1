# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting until VMs respond, all of them at once: the work of ``virt_wait`` on a hypervisor.

One thread observes each VM (:mod:`waited`), one tries each address; the caller's thread compares
both every tenth of a second and probes the network for VMs that cannot be found otherwise. A VM
responds when an SSH server does at one of its addresses, unless the neighbour table assigns the
address to another machine. A VM that was seeded with a host key must present it; then its seed has
been applied, and the medium is removed.

When waiting for an address only, none is tried: a known address is enough.
"""

from __future__ import annotations

import functools
import threading
import time
import typing as t

from ..._errors import FleetVirtError, HostUnreachable
from ..._records import dataclass, field
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..base.effects_lookup import require_domains
from ..hosts import read_neighbours as neighbours
from ..seed.first_boot import ENDED_BADLY, GOES_ON
from . import effects_medium as seed_medium
from . import read_ssh as ssh
from .effects_waited import WaitedGuest
from .facts import WaitingVm
from .read_ssh import Answer, probe

_TICK = 0.1
_PAUSE = 0.5  # between two observations of a VM, and two attempts at an address
_SOON = 0.1  # between two attempts if the port refuses connections, which costs almost nothing
_TRIGGER_PAUSE = 5.0  # between two probes of all machines on a bridge
_BETTER = 0.5  # how long to wait for an address from a more trusted source
_SHORTEST = 2.0  # minimum duration of a call in a longer wait, even if something happened
_CHECK_MODE = "not waited for in check mode"
_GOES_ON = (
    "its first boot is still in progress: packages and commands are not done; wait longer"
    " (wait_timeout), or check inside the guest (with cloud-init: cloud-init status --long)"
)
_WRONG = 8.0  # how long a server presents another host key before waiting is given up
_IDLE = 30.0  # how long a console is at a login prompt before waiting is given up
_NO_CLOUD_INIT = (
    "the image did not apply its seed: its console has been at a login prompt for"
    f" {_IDLE:g} s without any earlier output from cloud-init"
)
_RECREATE = "Recreate it with an image that has cloud-init, or with seed method offline or auto"
UNTIL = ("ssh", "address")


@dataclass(frozen=True)
class WaitSettings:
    """``wait_timeout`` and ``slice`` are seconds; a call returns after ``slice`` even if VMs have
    not responded yet (None: after ``wait_timeout`` only), unless one is about to be given up.

    ``until`` is one of :data:`UNTIL`."""

    wait_timeout: float = 300.0
    port: int = 22
    slice: float | None = None
    until: str = "ssh"


@dataclass
class _Try:
    """Attempts at one address: ``answer`` is the last result, None if there is none yet."""

    answer: Answer | None = None
    busy: bool = False
    due: float = 0.0
    since: float = 0.0  # when it first answered
    proven: bool = False  # it presented the host key that it was seeded with
    wrong: float = 0.0  # since when it has presented another


@dataclass
class _Watched:
    guest: WaitedGuest
    tries: dict[str, _Try] = field(default_factory=dict)
    candidates: dict[str, str] = field(default_factory=dict)
    address: str | None = None
    source: str | None = None
    seconds: float | None = None
    answered: bool = False
    proven: bool = False
    failed: bool = False  # it responds, but its first boot failed
    changed: bool = False  # its seed medium was removed
    problem: str = ""
    booting: str = ""  # the message if it responds, but has not finished its first boot

    @property
    def over(self) -> bool:
        return self.answered or self.guest.ended is not None

    @property
    def first_boot(self) -> str | None:
        """Why a VM that responds does not count as such."""
        if self.failed:
            return ENDED_BADLY
        return GOES_ON if self.booting and not self.over else None


class _Failure(t.TypedDict, total=False):
    failed: bool
    msg: str


class WaitResult(_Failure):
    """The module's result; ``waiting`` are the names of VMs that have not responded yet."""

    changed: bool
    vms: list[WaitingVm]
    waiting: list[str]


def predict(names: t.Sequence[str]) -> WaitResult:
    """The result in check mode: the VMs may not even exist, so their responses are unknown."""
    vms: list[WaitingVm] = [
        {
            "name": name,
            "address": None,
            "addresses": [],
            "source": None,
            "seconds": None,
            "state": None,
            "reason": None,
            "answered": None,
            "first_boot": None,
            "msg": _CHECK_MODE,
            "console": [],
            "changed": False,
        }
        for name in dict.fromkeys(names)
    ]
    return {"changed": False, "vms": vms, "waiting": []}


def wait(
    connection: Connection, agents: Connection, names: t.Sequence[str], settings: WaitSettings
) -> WaitResult:
    """Wait for the VMs; returns the module's result. Raises SpecError for unknown names.

    ``agents`` is a second connection for calls to guest agents, which may hang.
    """
    return _Wait(connection, agents, names, settings).run()


class _Wait:
    def __init__(
        self,
        connection: Connection,
        agents: Connection,
        names: t.Sequence[str],
        settings: WaitSettings,
    ) -> None:
        self.connection = connection
        self.agents = agents
        self.settings = settings
        self.stop = threading.Event()
        self.news = threading.Event()  # a VM responded
        self.triggered: dict[str, float] = {}
        self.bug: BaseException | None = None
        domains = require_domains(connection, names)
        self.watched = [_Watched(WaitedGuest(connection, agents, dom)) for dom in domains.values()]

    def run(self) -> WaitResult:
        self.started = time.monotonic()
        limit, part = self.settings.wait_timeout, self.settings.slice
        slicing = part is not None and part < limit
        threads = [self._begin(functools.partial(self._observe, vm.guest)) for vm in self.watched]
        try:
            while not all(vm.over for vm in self.watched):
                passed = time.monotonic() - self.started
                if passed >= limit or (part is not None and self._is_due(passed - part)):
                    break
                if slicing and passed >= _SHORTEST and any(vm.over for vm in self.watched):
                    break
                self._step()
                self._check()
                self.news.wait(_TICK)
                self.news.clear()
        finally:
            self.stop.set()
        self._leave(threads)
        for vm in self.watched:
            self._remove_medium(vm)
            self._settle_first_boot(vm)
        return self._result(final=not slicing)

    def _leave(self, threads: t.Sequence[threading.Thread]) -> None:
        """Wait briefly for the threads; those stuck in a call are abandoned."""
        end = time.monotonic() + _PAUSE
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        # a connection is not closed during a call: closing would wait for it
        stuck = sum(thread.is_alive() for thread in threads)
        self.connection.hanging += stuck
        self.agents.hanging += stuck

    def _begin(self, work: t.Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # a bug of ours, raised in the caller's thread
                self.bug = error

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _observe(self, guest: WaitedGuest) -> None:
        while not self.stop.is_set() and guest.ended is None:
            guest.look()
            self.stop.wait(_PAUSE)

    def _check(self) -> None:
        """Raise an error that makes further waiting pointless."""
        if self.bug is not None:
            raise self.bug
        if any(vm.guest.note for vm in self.watched):
            conn = self.connection.conn
            if not self.connection.call("check that libvirt is alive", conn.isAlive):
                raise HostUnreachable(self.connection.uri, "the connection was lost")

    def _step(self) -> None:
        table = neighbours.table() if self.connection.local else {}
        for vm in self.watched:
            if vm.over:
                continue
            vm.candidates = vm.guest.candidates(table)
            for address in vm.candidates if self.settings.until == "ssh" else ():
                attempt = vm.tries.setdefault(address, _Try())
                if not attempt.busy and time.monotonic() >= attempt.due:
                    attempt.busy = True
                    self._begin(functools.partial(self._try, vm.guest, address, attempt))
            self._settle(vm)
            if self.settings.until == "ssh" and not vm.over:
                self._give_up(vm)
            if self.connection.local and self._is_unreachable(vm):
                self._trigger_arp(vm.guest)

    @staticmethod
    def _is_unreachable(vm: _Watched) -> bool:
        """Whether no address is known, or none responds: a console log may still contain an
        address that the VM had earlier, and a request may name one that it never used."""
        answers = [vm.tries[address].answer for address in vm.candidates if address in vm.tries]
        return len(answers) == len(vm.candidates) and all(
            answer is not None and answer.silent for answer in answers
        )

    def _try(self, guest: WaitedGuest, address: str, attempt: _Try) -> None:
        def note(answer: Answer) -> None:
            attempt.answer = attempt.answer or answer

        key = guest.host_key if self.connection.local else None
        # Every connection is work for a booting guest. If the port refused connections a moment
        # ago, the first connection that is accepted is the one that checks the key.
        if key and attempt.answer is not None and attempt.answer.refused:
            self._proof(key, address, attempt)
        if attempt.proven:
            answer = Answer(True, "it holds its host key")
        else:
            answer = probe(address, self.settings.port, note)
            if answer.ok and self.connection.local:
                owner = neighbours.table().get(address)
                if owner is not None and owner not in guest.macs:
                    answer = Answer(False, f"another machine has this address ({owner})")
            if answer.ok and key:
                answer = self._proof(key, address, attempt) or answer
        if answer.ok and not attempt.since:
            attempt.since = time.monotonic()
        attempt.answer = answer
        attempt.due = time.monotonic() + (_SOON if answer.refused else _PAUSE)
        attempt.busy = False
        if answer.ok:
            self.news.set()

    def _proof(self, key: str, address: str, attempt: _Try) -> Answer | None:
        """Check that the server has the seeded host key; the result if it does not."""
        proof = ssh.ask(address, self.settings.port, key)
        attempt.proven = proof is ssh.Proof.HOLDS
        if proof is None or attempt.proven:
            return None
        wrong, attempt.wrong = attempt.wrong, 0.0
        if proof is ssh.Proof.NONE:
            return Answer(False, f"its SSH server presents no {key.partition(' ')[0]} key yet")
        attempt.wrong = wrong or time.monotonic()
        return Answer(
            False,
            "its SSH server presents a different host key than its seed contains: the image did not"
            " apply the seed (it needs cloud-init), or another machine has this address",
        )

    def _remove_medium(self, vm: _Watched) -> None:
        """Remove the medium. A failure is reported, and the next wait tries again."""
        if not (vm.proven and vm.guest.has_medium):
            return
        try:
            vm.changed = seed_medium.remove(self.connection, vm.guest.dom)
        except FleetVirtError as error:
            vm.problem = f"its seed medium is no longer needed but was not removed: {error}"

    def _settle_first_boot(self, vm: _Watched) -> None:
        """Record the outcome of the first boot; a VM whose first boot failed has not answered."""
        first = vm.guest.first_boot
        if not vm.answered or self.settings.until != "ssh" or first.noted is None:
            return
        vm.problem = "; ".join(filter(None, (vm.problem, first.remark)))
        vm.failed = first.failure is not None
        try:
            first.settle(self.connection, vm.guest.dom)
        except FleetVirtError as error:
            unrecorded = f"this could not be recorded: {error}"
            vm.problem = "; ".join(filter(None, (vm.problem, unrecorded)))

    def _settle(self, vm: _Watched) -> None:
        """Choose the most trusted address of those that respond."""
        now = time.monotonic()
        if self.settings.until == "address" and vm.candidates:
            vm.address, vm.source = next(iter(vm.candidates.items()))
            vm.answered, vm.seconds = True, round(now - self.started, 1)
            return
        undecided = False
        for address, source in vm.candidates.items():
            attempt = vm.tries[address]
            if attempt.answer is not None and attempt.answer.ok:
                if undecided and now - attempt.since < _BETTER:
                    return
                first = vm.guest.first_boot
                if first.noted is not None and (vm.guest.looked < attempt.since or first.goes_on):
                    vm.booting = f"{address} answers, but {_GOES_ON}"
                    return
                vm.address, vm.source, vm.answered = address, source, True
                vm.proven = attempt.proven
                vm.seconds = round(attempt.since - self.started, 1)
                return
            undecided = undecided or attempt.busy

    def _is_due(self, late: float) -> bool:
        """Whether the call returns, ``late`` seconds after its part of the time: not while the time
        that a console is at a login prompt is measured, which the next call would begin again."""
        measured = any(
            not vm.over and vm.guest.needs_seed and vm.guest.idle is not None
            for vm in self.watched
            if self.settings.until == "ssh"
        )
        return late >= (_IDLE if measured else 0.0)

    def _give_up(self, vm: _Watched) -> None:
        """Stop waiting for a guest that did not apply its seed: nothing will change that."""
        guest, now = vm.guest, time.monotonic()
        if not guest.needs_seed:
            return
        tries = [vm.tries[address] for address in vm.candidates]
        if tries and all(attempt.wrong and now - attempt.wrong >= _WRONG for attempt in tries):
            address, attempt = next(zip(vm.candidates, tries))
            text = attempt.answer.text if attempt.answer is not None else ""
            guest.ended = f"{address}: {text}. {_RECREATE}"
        elif guest.idle is not None and guest.idle >= _IDLE:
            tried = [
                f"{address}: {attempt.answer.text}"
                for address, attempt in zip(vm.candidates, tries)
                if attempt.answer is not None
            ]
            guest.ended = "; ".join([f"{_NO_CLOUD_INIT}. {_RECREATE}", *tried])

    def _trigger_arp(self, guest: WaitedGuest) -> None:
        """Probe the networks of a VM with no known address, at once if it has sent traffic."""
        now = time.monotonic()
        for bridge, mac in guest.bridges:
            last = self.triggered.get(bridge)
            if last is not None and now - last < _TRIGGER_PAUSE:
                continue
            # a bridge forgets a VM that is idle for minutes
            if neighbours.has_spoken(bridge, mac) or now - self.started >= _TRIGGER_PAUSE:
                self.triggered[bridge] = now
                neighbours.trigger_arp(bridge)

    def _result(self, *, final: bool) -> WaitResult:
        """The current result; failed if waiting is over and a VM did not respond."""
        open_ends = [vm for vm in self.watched if not vm.over]
        silent = [
            vm for vm in self.watched if vm.failed or (not vm.answered and (final or vm.over))
        ]
        described = [vm for vm in silent if self.connection.local]
        ends = deadline.each(
            lambda vm: vm.guest.console_end(),
            described,
            seconds=5.0,
            what=lambda vm: f"console of {vm.guest.name}",
            parallel=4,
        )
        consoles = {
            vm.guest.name: outcome.value
            for vm, outcome in zip(described, ends)
            if isinstance(outcome, deadline.Ok)
        }
        vms = [self._entry(vm, consoles.get(vm.guest.name, [])) for vm in self.watched]
        result: WaitResult = {
            "changed": any(vm["changed"] for vm in vms),
            "vms": vms,
            "waiting": [] if final else [vm.guest.name for vm in open_ends],
        }
        if final and silent:
            result["failed"] = True
            result["msg"] = "; ".join(
                f"{vm['name']}: {vm['msg']}" for vm in vms if not vm["answered"]
            )
        return result

    def _entry(self, vm: _Watched, console_end: list[str]) -> WaitingVm:
        guest = vm.guest
        if not vm.answered and vm.candidates:
            vm.address, vm.source = next(iter(vm.candidates.items()))
        return {
            "name": guest.name,
            "address": vm.address,
            "addresses": list(vm.candidates),
            "source": vm.source,
            "seconds": vm.seconds,
            "state": guest.state,
            "reason": guest.reason,
            "answered": vm.answered and not vm.failed,
            "first_boot": vm.first_boot,
            "msg": vm.problem if vm.answered else self._missing(vm),
            "console": console_end,
            "changed": vm.changed,
        }

    def _missing(self, vm: _Watched) -> str:
        guest = vm.guest
        if guest.ended is not None:
            return guest.ended
        if vm.booting:
            return vm.booting
        tried = [
            f"{address} (from {source}): {attempt.answer.text}"
            for address, source in vm.candidates.items()
            for attempt in [vm.tries.get(address)]
            if attempt is not None and attempt.answer is not None
        ]
        if tried:
            missing = "; ".join(tried)
        elif vm.candidates:
            missing = f"{', '.join(vm.candidates)}: no response yet"
        elif guest.state is None:
            missing = "libvirt has not reported its state"
        elif not guest.nics:
            missing = "no address: it has no NIC"
        else:
            macs = ", ".join(guest.macs)
            missing = (
                f"no address: {guest.agent_note}, no libvirt DHCP lease, no neighbour entry for"
                f" {macs}, and no cloud-init line on its console"
            )
        if guest.host_address is not None:
            missing += f"; it claims {guest.host_address}, which belongs to this hypervisor"
        return f"{missing} ({guest.note})" if guest.note else missing
