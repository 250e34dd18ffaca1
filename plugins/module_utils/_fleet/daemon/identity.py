# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which UUID libvirt has of a machine, and whether it may be its machine ID.

Others know a hypervisor by that UUID. libvirt takes the firmware's; where that has none it makes
one up at each start of its daemon, and many boards have one in common. The machine ID lasts, but a
cloned machine has it too, and who had another UUID before is another machine to the others then.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..base import answers, config_block
from ..base.names import command_on, playbook_command
from ..hosts import machine_uuid

SOURCE = "host_uuid_source"
MACHINE_ID, FIRMWARE = "machine-id", "smbios"
_UUID = "host_uuid"
_ID = "/etc/machine-id"
_VARIABLE = "libvirtd_host_uuid_source"


@dataclass(frozen=True)
class Identity:
    """What a machine has: the firmware's UUID and the machine ID as they are read, and the text of
    the file that says which of them libvirt takes. An ID that ends with this boot is ``brief``."""

    firmware: str | None
    machine_id: str | None
    brief: bool
    path: str
    text: str

    @property
    def usable_id(self) -> str | None:
        """The machine ID, if libvirt can take it and the next boot has it as well."""
        value = self.machine_id or ""
        return (
            machine_uuid.plain(value) if machine_uuid.is_valid(value) and not self.brief else None
        )


class MachineFacts(answers.Result, total=False):
    """What a machine tells of itself and of others: libvirt's UUID of it, its machine ID, and by
    the name of a hypervisor which machines its notes say that is, and which cards name it."""

    error: str | None
    uuid: str | None
    machine_id: str | None
    noted: dict[str, list[str]] | None
    cards: dict[str, list[str]] | None


def source(identity: Identity, option: str | None) -> str | None:
    """What our block says of the source; None to leave it out, as libvirt has a UUID that lasts."""
    if option is not None:
        return option
    ours, _others = config_block.split(identity.text, identity.path)
    if _value(ours, SOURCE) == MACHINE_ID:
        return MACHINE_ID  # decided before: another one would make it another machine
    return None


def expected(identity: Identity, value: str | None) -> str | None:
    """The UUID that libvirt must have with that source; None if that is not known."""
    _ours, others = config_block.split(identity.text, identity.path)
    if value != MACHINE_ID or _value(others, _UUID) is not None:
        return None
    return identity.usable_id


def needs(identity: Identity, option: str | None) -> bool:
    """Whether libvirt has no UUID of this machine that lasts and is its own."""
    _ours, others = config_block.split(identity.text, identity.path)
    stated = machine_uuid.is_valid(_value(others, _UUID) or "")
    if stated or _value(others, SOURCE) == MACHINE_ID or source(identity, option) is not None:
        return False
    firmware = identity.firmware or ""
    return not machine_uuid.is_valid(firmware) or machine_uuid.is_common(firmware)


def lines(value: str | None) -> tuple[str, ...]:
    """The line of the file."""
    return () if value is None else (f'{SOURCE} = "{value}"',)


def _value(text_lines: t.Sequence[str], key: str) -> str | None:
    """What libvirt takes: the first of several assignments."""
    for name, value in config_block.assignments(text_lines):
        if name == key:
            return value.strip("\"'")
    return None


def refusal(name: str, own: MachineFacts, others: t.Mapping[str, MachineFacts]) -> str:
    """Why libvirt must not take the machine ID of the hypervisor ``name`` as its UUID; empty if it
    may. ``others`` are the other hypervisors of the fleet, with an ``error`` where one cannot be
    asked."""
    machine_id = own.get("machine_id")
    if error := own.get("error"):
        return _refused(f"it cannot be asked for it ({error})", "run this again")
    if not machine_id:
        return _refused(
            f"{_ID} has none that lasts, so libvirt would have another one after each boot",
            f"make one ({_renewing(name)}), and run this again",
        )
    silent = {host: why for host, facts in others.items() if (why := facts.get("error"))}
    told = {host: facts for host, facts in others.items() if host not in silent}
    same = [
        host
        for host, facts in told.items()
        if machine_id in {facts.get("machine_id"), machine_uuid.plain(facts.get("uuid") or "")}
    ]
    if same:
        return _refused(
            f"{' and '.join(same)} {'has' if len(same) == 1 else 'have'} its machine ID too"
            f" ({machine_id}), as cloned machines do",
            f"give it one of its own ({_renewing(name)}), reboot it, and run this again",
        )
    machines, texts = _known(name, machine_id, {name: own, **told})
    taken = playbook_command("setup_hypervisors", libvirtd_host_uuid_source=MACHINE_ID)
    if texts:
        lost_ones = (
            f"; the others' notes of it go with -e virt_hypervisors_lost={','.join(machines)}"
            if machines
            else ""
        )
        return _refused(
            f"it would be another machine to the fleet than before: {'; '.join(texts)}",
            f"if that is to be, {taken} --limit {name}{lost_ones}; to leave it as it is, set"
            f" {_VARIABLE}: {FIRMWARE} for it in the inventory",
        )
    if silent:
        why = "; ".join(f"{host}: {text}" for host, text in silent.items())
        return _refused(
            f"{' and '.join(silent)} cannot be asked for machine IDs and notes ({why})",
            "run this again when all answer; if such a hypervisor is permanently gone,"
            f" -e virt_hypervisors_lost={','.join(silent)}; if it is known that none has the"
            f" machine ID {machine_id}, {taken} --limit {name}",
        )
    return ""


def _refused(why: str, remedy: str) -> str:
    return (
        "its firmware has no UUID of its own, by which others know a hypervisor, and libvirt cannot"
        f" take its machine ID instead: {why}. Remedy: {remedy}"
    )


def _renewing(host: str) -> str:
    words = f"rm -f {_ID} /var/lib/dbus/machine-id && systemd-machine-id-setup"
    return command_on(host, "sh", "-c", words)


def _known(
    name: str, machine_id: str, told: t.Mapping[str, MachineFacts]
) -> tuple[list[str], list[str]]:
    """As which other machines notes name it, and all that names it, for people."""
    machines: list[str] = []
    texts = []
    cards: list[str] = []
    for host, facts in told.items():
        noted = [
            machine
            for machine in (facts.get("noted") or {}).get(name) or ()
            if machine_uuid.plain(machine) != machine_id
        ]
        if noted:
            texts.append(f"{host} has noted it as machine {' and '.join(noted)}")
        machines += [machine for machine in noted if machine not in machines]
        cards += (facts.get("cards") or {}).get(name) or ()
    if cards:
        texts.append(f"the card {sorted(set(cards))[0]} names it")
    return machines, texts
