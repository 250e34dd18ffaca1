# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was read from a fleet, as text tables for people."""

from __future__ import annotations

import contextlib
import contextvars
import csv
import re
import typing as t
from types import SimpleNamespace

from ..._errors import visible
from ..._units import format_size
from . import results

if t.TYPE_CHECKING:
    from .columns import Column

Entry = t.Mapping[str, t.Any]

# What a spreadsheet takes as the beginning of a formula, also where it uses a separator other than
# the comma
_FORMULA = re.compile(r"(^|[,;])( *)(?=[-=+@\uff0d\uff1d\uff0b\uff20])")

# Digests of SHA-256 and SHA-512, also within the names of base images; a dozen digits tell them
# apart, and the whole is in JSON, YAML and CSV
_DIGEST = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})(?:[0-9a-f]{52}|[0-9a-f]{116})(?![0-9a-f])")

# Columns whose cells are names, which stand whole in every other output and in errors
_NAMES = frozenset({"VM", "NAME", "HYPERVISOR", "FROM", "TO", "IMAGE", "SNAPSHOT", "PARENT"})
_SHORTEST = 12  # characters that a name is cut to, or more where names would read alike
_PROSE = 24  # of the last column, which may wrap, this much belongs in the line
_screen: contextvars.ContextVar[int | None] = contextvars.ContextVar("screen", default=None)


@contextlib.contextmanager
def fitting(columns: int | None) -> t.Iterator[None]:
    """Tables that are made meanwhile are for a terminal with so many columns; None: for any."""
    token = _screen.set(columns)
    try:
        yield
    finally:
        _screen.reset(token)


def clean(value: object) -> str:
    """Text for a terminal: names and titles belong to guests, so control characters are shown."""
    if value is None:
        return "-"
    return visible(str(value), kept="")


def table(
    heads: t.Sequence[str],
    rows: t.Sequence[t.Sequence[object]],
    groups: t.Mapping[int, str] | None = None,
) -> str:
    """Columns as wide as their widest cell; numbers are right-aligned, digests are cut, and names
    where a narrow terminal would wrap the line (:func:`fitting`).

    ``groups`` are headings on a line of their own, each above the columns from its number on.
    """
    cells = [[_DIGEST.sub(r"\1", clean(cell)) for cell in row] for row in rows]
    _shorten(heads, cells)
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    numeric = [_numeric([row[i] for row in rows]) for i in range(len(heads))]

    def line(row: t.Sequence[str]) -> str:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric)
        ]
        return "  ".join(parts).rstrip()

    lines = [line(row) for row in [list(heads), *cells]]
    if groups:
        above = ""
        for first, word in groups.items():
            above = above.ljust(sum(widths[:first]) + 2 * first) + word
        lines.insert(0, above)
    return "\n".join(lines)


def _numeric(cells: t.Sequence[object]) -> bool:
    """Whether a column has numbers alone; one of which nothing is known counts as text."""
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, (int, float)) for cell in known)


def _shorten(heads: t.Sequence[str], cells: list[list[str]]) -> None:
    """Cut the names in ``cells`` as far as the screen needs; two that differ still do."""
    screen = _screen.get()
    widths = [max(map(len, column)) for column in zip(heads, *cells)]
    last = len(heads) - 1
    if screen is None or sum(widths) + 2 * last <= screen:
        return
    if heads[last] not in _NAMES:
        widths[last] = min(widths[last], _PROSE)
    columns = [i for i in range(len(heads)) if heads[i] in _NAMES and widths[i] > _SHORTEST]
    wanted = {i: widths[i] for i in columns}
    while columns and sum(widths) + 2 * last > screen:
        widest = max(columns, key=lambda i: wanted[i])
        if wanted[widest] == _SHORTEST:
            break
        wanted[widest] -= 1
        widths[widest] -= 1
    for i, width in wanted.items():
        short = _shortened({row[i] for row in cells}, width)
        for row in cells:
            row[i] = short[row[i]]


def _shortened(names: t.Collection[str], width: int) -> dict[str, str]:
    """Each of ``names`` with at most ``width`` characters, or more if two would read alike: cut at
    the end, else in the middle, where ``~`` stands for the rest."""
    for longest in range(width, max(map(len, names), default=0) + 1):
        for tail in range(longest - 1):
            short = {
                name: name
                if len(name) <= longest
                else f"{name[: longest - 1 - tail]}~{name[len(name) - tail :]}"
                for name in names
            }
            if len(set(short.values())) == len(short):
                return short
    return {name: name for name in names}


def csv_text(heads: t.Sequence[str], rows: t.Sequence[t.Sequence[object]]) -> str:
    """Comma-separated values, one line a record.

    List items are separated by ``;``, unknown values are empty, control characters are shown, and
    what a spreadsheet would take as a formula is preceded by an apostrophe.
    """
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return "".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        value = ";".join(str(item) for item in value)
    if isinstance(value, int):
        return str(value)
    return _FORMULA.sub(r"\1\2'", clean(value))


def _silent(hypervisors: t.Sequence[Entry]) -> list[str]:
    return [
        f"{clean(entry['name'])}: {_maintained(entry)}no answer: {clean(entry['error'])}"
        f"{clean(_noted(entry))}"
        for entry in hypervisors
        if not entry["answered"]
    ]


def _answered(hypervisors: t.Sequence[Entry]) -> list[str]:
    """The closing line if not all answered, so that the table is known to be incomplete."""
    silent = [entry for entry in hypervisors if not entry["answered"]]
    if not silent:
        return []
    unknown = [clean(entry["name"]) for entry in silent if not entry.get("noted")]
    noted = [clean(entry["name"]) for entry in silent if entry.get("noted")]
    told = [f"VMs on {', '.join(noted)} are shown as others noted them"] if noted else []
    told += [f"VMs on {', '.join(unknown)} are not shown"] if unknown else []
    count = f"{len(hypervisors) - len(silent)} of {len(hypervisors)} hypervisors answered"
    return ["; ".join([count, *told])]


def _maintained(entry: Entry) -> str:
    since = entry.get("maintenance_since")
    return f"in maintenance since {clean(since)}; " if since else ""


def _noted(entry: Entry) -> str:
    """What others noted of a hypervisor that does not answer, if they were asked."""
    if "noted" not in entry:
        return ""
    noted = entry["noted"]
    if not noted:
        return "; nothing is noted of it"
    claimed = int(noted["claimed"])
    number = len(noted["vms"]) - claimed
    vms = "1 VM" if number == 1 else f"{number} VMs"
    more = f"; {claimed} claimed there may never have been built, or have left" if claimed else ""
    return f"; as {noted['by']} noted at {noted['at']} it had {vms}{more}"


def _why(domain: Entry) -> object:
    """libvirt's reason for the state, and where a VM is being moved to, or what else a run does to
    it or did when it was interrupted; its cell, and what that says of it."""
    stored, cell = domain.get("metadata") or {}, domain.get("cell")
    words = [clean(domain["reason"])]
    if stored.get("move"):
        words.append(f"moving to {clean(stored['move']['destination'])}")
    elif stored.get("phase") and not stored.get("problem"):  # which says more
        words.append(f"in phase {clean(stored['phase'])}")
    if cell:
        words.append(f"cell {clean(cell['name'])}")
        if not cell["managed"]:
            by = cell["held_by"]
            words.append(f"unmanaged (by {clean(by)})" if by else "unmanaged")
        if cell["failed"]:
            words.append(f"failed: {clean(cell['reason'])}" if cell["reason"] else "failed")
    return ", ".join(words) if len(words) > 1 else domain["reason"]


def is_defined(domain: Entry) -> bool:
    """Whether a hypervisor has it: a VM of a cell that is off may be known by its card alone."""
    cell = domain.get("cell")
    return not cell or bool(cell["defined"])


def host_info(hypervisors: t.Sequence[Entry]) -> str:
    """One line a hypervisor, and the sums of those that answered.

    Pools have no sum: hypervisors may share them.
    """
    heads = ["HYPERVISOR", "STATE", "TYPE", "TOTAL", "RUNNING", "DEFINED", "TOTAL", "FREE"]
    heads += ["RUNNING", "DEFINED", "ACTIVE", "SHUTOFF", "POOLS"]
    rows: list[list[object]] = []
    for entry in hypervisors:
        host = entry["host"]
        if host is None:
            rows.append([entry["name"], "no answer", *[None] * (len(heads) - 2)])
            continue
        cpu, memory, domains = host["cpu"], host["memory_mib"], host["domains"]
        rows.append(
            [
                entry["name"],
                {True: "maintenance", False: "ready", None: "base pool?"}[host["maintenance"]],
                "/".join(host["domain_types"]),
                *(cpu[key] for key in ("total", "running", "defined")),
                *(memory[key] for key in ("total", "free", "running", "defined")),
                sum(domains.values()) - domains.get("shutoff", 0),
                domains.get("shutoff", 0),
                " ".join(
                    f"{pool['name']}:{format_size(pool['available_mib'])}"
                    for pool in host["pools"]
                    if pool["state"] == "running"
                )
                or None,
            ]
        )
    answered = [row for row, entry in zip(rows, hypervisors) if entry["host"] is not None]
    if len(rows) > 1:
        part = f"{len(answered)} of {len(rows)}"
        sums = [_sum([row[i] for row in answered]) for i in range(3, len(heads) - 1)]
        rows.append(["TOTAL", part, None, *sums, None])
    groups = {3: "CPUS", 6: "MEMORY MIB", 10: "DOMAINS"}
    return "\n".join([table(heads, rows, groups), *_silent(hypervisors)]) + "\n"


def _sum(numbers: t.Sequence[object]) -> int | None:
    """None where one of them is not known."""
    known = [number for number in numbers if isinstance(number, int)]
    return sum(known) if known and len(known) == len(numbers) else None


# Said of a hypervisor of which no domain is shown: of all, or of those that were named
NONE, NONE_NAMED = "no domains", "none of the named domains"


def listing(
    hypervisors: t.Sequence[Entry],
    domains: t.Sequence[tuple[str, Entry]] | None = None,
    count: str = "",
    columns: t.Sequence[Column] = (),
    none: str = NONE,
) -> str:
    """Hypervisor, state, names and the requested ``columns``: one line a domain.

    ``domains`` are those of ``hypervisors``, each with its hypervisor's name, if they have their
    own order; ``count`` tells how many are shown if there are more. ``none`` is said of a
    hypervisor without any.
    """
    if domains is None:
        domains = [(entry["name"], domain) for entry in hypervisors for domain in entry["domains"]]
    heads = ["HYPERVISOR", "NAME", "STATE", "REASON"]
    heads += [column.name.upper().replace("_", " ") for column in columns]
    rows = [
        [
            *(host or None, domain["name"], domain["state"], _why(domain)),
            *(column.shown(domain) for column in columns),
        ]
        for host, domain in domains
    ]
    empty = [
        f"{clean(entry['name'])}: {none}"
        for entry in hypervisors
        if entry["answered"] and not entry["domains"] and not count
    ]
    lines = [table(heads, rows)] if rows else []
    lines += [*empty, *_broken(hypervisors), *_silent(hypervisors), *([count] if count else [])]
    return "\n".join([*lines, *_answered(hypervisors)]) + "\n"


def query(
    hypervisors: t.Sequence[Entry],
    count: str = "",
    columns: t.Sequence[Column] = (),
    none: str = NONE,
) -> str:
    """Every domain, with the fields administrators know from the predecessor's query, and the
    requested ``columns``.

    ``count`` tells how many are shown if there are more, ``none`` is said of a hypervisor without
    any.
    """
    lines: list[str] = []
    for entry in hypervisors:
        here = [domain for domain in entry["domains"] if is_defined(domain)]
        if not here and (count or not entry["answered"]):
            continue
        lines.append(f"{clean(entry['name'])}:")
        if not here:
            lines.append(f"  {none}")
        for domain in here:
            lines += _domain(str(entry["name"]), domain, columns)
    off = [one for entry in hypervisors for one in entry["domains"] if not is_defined(one)]
    lines += ["on no hypervisor:"] if off else []
    for domain in off:
        lines += _domain("", domain, columns)
    lines += [*_silent(hypervisors), *([count] if count else [])]
    return "\n".join([*lines, *_answered(hypervisors)]) + "\n"


def _domain(hypervisor: str, domain: Entry, columns: t.Sequence[Column]) -> list[str]:
    lines = [
        f"  {clean(domain['name'])}",
        f"    CPU: {clean(domain['vcpus'])}",
        f"    Memory: {clean(domain['memory_mib'])} MiB",
        f"    State: {clean(domain['state'])} ({clean(_why(domain))})",
        *(
            f"    {column.name.capitalize().replace('_', ' ')}: {clean(column.shown(domain))}"
            for column in columns
        ),
    ]
    for graphics in domain["graphics"]:
        lines.append(f"    Graphics: {clean(graphics['type'])} - {_where(hypervisor, graphics)}")
    for disk in domain["disks"]:
        if disk.get("device") == "cdrom" and disk["source"] is None:
            lines.append(f"    CD drive - {clean(disk['target'])}: empty")
            continue
        lines += [
            f"    Disk - {clean(disk['target'])}:",
            f"      Size: {format_size(disk['size_mib'])}",
            f"      File: {clean(disk['source'])}",
            f"      File Format: {clean(disk['format'])}",
        ]
    for nic in domain["nics"]:
        lines += [
            f"    Nic - {clean(nic['mac'])}:",
            f"      Source: {clean(nic['source'])}",
            f"      Type: {clean(nic['type'])}",
        ]
        if nic["addresses"]:
            lines.append(f"      Addresses: {clean(' '.join(nic['addresses']))}")
    if domain["error"]:
        lines.append(f"    Error: {clean(domain['error'])}")
    return lines


def _where(hypervisor: str, graphics: Entry) -> str:
    if graphics.get("socket"):
        return f"{clean(hypervisor)}:{clean(graphics['socket'])}"
    port = graphics["port"] if graphics["port"] is not None else graphics.get("tls_port")
    return f"{clean(hypervisor)}:{'no port while it is off' if port is None else clean(port)}"


def _broken(hypervisors: t.Sequence[Entry]) -> list[str]:
    return [
        f"{clean(entry['name'])}: {clean(domain['name'])}: {clean(domain['error'])}"
        for entry in hypervisors
        for domain in entry["domains"]
        if domain["error"]
    ]


def placements(vms: t.Sequence[Entry], *, every: bool = False) -> str:
    """Where each VM goes, and why.

    With ``every``, each other hypervisor follows, and all have their score or their reason.
    """
    rows: list[list[object]] = []
    for vm in vms:
        if vm["existing"]:
            rows.append([vm["name"], ", ".join(vm["existing"]), "exists already", None])
            continue
        if not vm["ranking"]:
            rows.append([vm["name"], None, "nowhere", None])
        for position, ranked in enumerate(vm["ranking"] if every else vm["ranking"][:1]):
            word = "chosen" if position == 0 else "possible"
            word += f", {ranked['score']:.3f}" if every else ""
            reasons = [vm["why"]] if position == 0 and vm["why"] else []
            rows.append([vm["name"], ranked["host"], word, "; ".join([*reasons, *ranked["notes"]])])
        rows += [
            [vm["name"], entry["host"], f"no: {entry['filter']}", entry["reason"]]
            for entry in (vm["rejected"] if every else ())
        ]
    return table(["VM", "HYPERVISOR", "PLACE", "WHY"], rows) + "\n"


def made(hypervisors: t.Sequence[Entry], *, predicted: bool = False) -> str:
    """Name, hypervisor, address and what was done: the end of a provisioning run."""
    rows = [
        [vm["name"], entry["name"], vm["address"], _became(vm, predicted)]
        for entry in hypervisors
        for vm in entry["vms"]
    ]
    return table(["VM", "HYPERVISOR", "ADDRESS", "RESULT"], rows) + "\n" if rows else ""


_NOT_YET = {"failed": "its first boot failed", "running": "its first boot is still running"}


def _became(vm: Entry, predicted: bool) -> str:
    if vm.get("failed") or vm.get("not_tried"):
        return results.word(vm, "")
    done = "changed" if vm.get("existed") is True else "created"
    if vm.get("started") is True:  # the last step, perhaps of several
        done = "started" if len(vm.get("steps") or ()) < 2 else f"{done} and started"
    done = f"would be {done}" if predicted else done
    words = [str(vm["msg"] or results.word(vm, done))]
    words += [str(vm["note"])] if vm.get("note") else []
    if vm.get("restarted") is True:
        words = [*(outcome for outcome in words if outcome != results.UNCHANGED), "restarted"]
    if vm.get("restart_required") is True:
        pending = vm.get("pending")
        waiting = ", ".join(map(str, pending)) if isinstance(pending, list) else ""
        words.append(f"needs a restart ({waiting})" if waiting else "needs a restart")
    if vm.get("answered") is False:
        words.append(_NOT_YET.get(str(vm.get("first_boot")), "does not answer"))
    elif vm.get("waited") and vm.get("answered") is None:
        words.append("not known whether it answers")
    return ", ".join(words)


def findings(preflight_findings: t.Sequence[Entry], cpus: t.Sequence[Entry] = ()) -> str:
    """What preflight found: each finding with its remedy below, and how many there are.

    ``cpus`` are CPUs that several hypervisors support, each a line to be copied, which is as long
    as it is.
    """
    lines: list[str] = []
    for finding in preflight_findings:
        hosts = ", ".join(map(clean, finding["hosts"]))
        head = f"{finding['severity'].upper()}  {hosts}  [{finding['id']}]"
        lines += [head, f"  {clean(finding['message'])}", f"  > {clean(finding['remedy'])}"]
    words = ("error", "warning", "info")
    counts = [
        f"{sum(finding['severity'] == word for finding in preflight_findings)} {word}"
        for word in words
    ]
    lines.append(", ".join(counts))
    for cpu in cpus:
        hosts = ", ".join(map(clean, cpu["hosts"]))
        lines += ["", f"CPU that all support ({hosts}), for their group_vars:", clean(cpu["line"])]
    return "\n".join(lines) + "\n"


def finding_records(preflight_findings: t.Sequence[Entry]) -> str:
    """CSV, one record for each finding."""
    heads = ["severity", "hosts", "id", "message", "remedy"]
    return csv_text(heads, [[finding[head] for head in heads] for finding in preflight_findings])


def images(hypervisors: t.Sequence[Entry]) -> str:
    """One line for each base image, with the VMs that use it."""
    rows = [
        [
            entry["name"],
            image["name"],
            image["digest"][:12],
            image["format"],
            image["size_mib"],
            image["allocated_mib"],
            {True: "intact", False: "DAMAGED", None: None}[image["intact"]],
            ", ".join(image["users"]) or "none",
        ]
        for entry in hypervisors
        for image in entry["images"] or ()
    ]
    heads = ["HYPERVISOR", "IMAGE", "DIGEST", "FORMAT", "MIB", "ON DISK", "CONTENT", "USED BY"]
    empty = [
        f"{clean(entry['name'])}: no images"
        for entry in hypervisors
        if entry["answered"] and not entry["images"]
    ]
    lines = [table(heads, rows)] if rows else []
    return "\n".join([*lines, *empty, *_silent(hypervisors)]) + "\n"


def maintenance(hypervisors: t.Sequence[Entry]) -> str:
    """Which hypervisors are in maintenance now."""
    words = {"True": "maintenance", "False": "ready"}
    rows = [
        [hypervisor["name"], words.get(str(hypervisor["maintenance"]), "failed")]
        for hypervisor in hypervisors
    ]
    return table(["HYPERVISOR", "STATE"], rows) + "\n"


_VIEWS: dict[str, t.Callable[[t.Sequence[Entry]], str]] = {
    "host_info": host_info,
    "images": images,
    "list": listing,
    "maintenance": maintenance,
    "query": query,
    "vms": made,
}


def render(view: str, hypervisors: t.Sequence[Entry], *, predicted: bool = False) -> str:
    """The table ``view``; ``predicted`` if its changes were not made (check mode)."""
    if view == "vms" and predicted:
        return made(hypervisors, predicted=True)
    return _VIEWS[view](hypervisors)
