# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import columns, tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import (
    Domains,
    HostInfo,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    cells,
    in_move,
    records,
    selection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import Marked
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.entries import (
    Images,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    report as provision_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Made,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ShowWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.facts import (
    Waited,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    shares,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import (
    hosts,
    read,
    registered,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _ended

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.ages import OverdueVm

_VIEWS = {
    "host_info": "host",
    "images": "images",
    "list": "domains",
    "maintenance": "maintenance",
    "query": "domains",
    "vms": "vms",
}
_NOTED = ("host_info", "list", "query")  # of hypervisors, each of which others may have noted
_ANSWERS: dict[str, type[t.Mapping[str, object]]] = {
    "host_info": HostInfo,
    "images": Images,
    "list": Domains,
    "maintenance": Marked,
    "query": Domains,
}
# Whose answers each view is of
_VERBS = {
    "host_info": "virt_host_info",
    "images": "virt_image_info",
    "list": "virt_query",
    "maintenance": "virt_maintenance",
    "query": "virt_query",
    "vms": "virt_init",
}


_STEP: Spec = {
    "results": {"type": "str", "required": True},
    "returns": {"type": "str", "required": True},
    "undone": {"type": "str", "required": True},
}
_OPTIONS: Spec = {
    "view": {"type": "str", "required": True, "choices": list(_VIEWS)},
    "results": {"type": "str", "required": True},
    "problems": {"type": "list", "elements": "str", "default": []},
    "acted": {"type": "list", "elements": "dict", "options": _STEP, "default": []},
    "lost": {"type": "list", "elements": "str"},
    "addresses": {"type": "str"},
    "names": {"type": "list", "elements": "str", "default": []},
    "states": {
        "type": "list",
        "elements": "str",
        "choices": selection.SHOWN_STATES,
        "default": [],
    },
    "groups": {"type": "list", "elements": "str", "default": []},
    "patterns": {"type": "list", "elements": "str", "default": []},
    "managed": {"type": "bool"},
    "noted": {"type": "bool", "default": True},
    "sort": {"type": "list", "elements": "str", "choices": selection.SORTS, "default": []},
    "columns": {"type": "list", "elements": "str", "default": []},
    "backup_hours": {"type": "float"},
    "backup_places": {"type": "list", "elements": "str", "default": []},
    "output": {"type": "str", "choices": _output.FORMS, "default": "table"},
    "output_file": {"type": "path"},
}
_INTERNAL: Spec = {
    # Seconds for each hypervisor that the controller reads itself
    "_direct": {"type": "float"},
    # The variable with what was noted of those that do not answer
    "_told": {"type": "str"},
}


class Step(t.TypedDict):
    results: str
    returns: str
    undone: str


class VirtShowOptions(Connected):
    view: str
    results: str
    problems: list[str]
    acted: list[Step]
    lost: list[str] | None
    addresses: str | None
    names: list[str]
    states: list[str]
    groups: list[str]
    patterns: list[str]
    managed: bool | None
    noted: bool
    sort: list[str]
    columns: list[str]
    backup_hours: float | None
    backup_places: list[str]
    output: str
    output_file: str | None
    _direct: float | None
    _told: str | None


class ActionModule(StagedAction[ShowWork]):
    WORK = ShowWork
    CONTROLLER = ("report",)
    _requires_connection = False
    _silent: Sequence[str] = ()  # those of which others are to be asked before anything is shown
    _ask: Sequence[str] = ()

    def decided(self, _work: ShowWork) -> t.Mapping[str, object]:
        return self._shown(self._values)

    def alone(self, task_vars: Values) -> Answer:
        return self._shown(task_vars)

    def _reported(self, work: ShowWork, values: Values) -> Answer:
        report = super()._reported(work, values)
        asked = {"silent": [*self._silent], "ask": [*self._ask]}
        return {**report, envelope.OPTION: {**as_mapping(report[envelope.OPTION]), **asked}}

    def _shown(self, task_vars: Values) -> Answer:
        options = self.options(VirtShowOptions, _OPTIONS, _INTERNAL)
        view, check = options["view"], self.check
        problems = [*options["problems"], *self._undone(options)]
        if view == "vms":
            hypervisors, failures = self._made(options)
        else:
            answers = _answers(task_vars, options["results"], view, self.header.run)
            direct = self._read_here(task_vars, options, answers)
            answers.update(direct)
            hypervisors = _collect(answers, view)
            if view in _NOTED and not self._noted(task_vars, options, hypervisors, bool(direct)):
                return {"changed": False}
            if view in ("list", "query"):
                hypervisors = cells.once(in_move.once(hypervisors))
            failures = selection.unanswered(hypervisors, options["names"])
            failures += _cut(answers, failures)
            if view == "maintenance":
                failures = _unmarked(answers)
            if view == "images" and not failures:
                failures = _damage(hypervisors)
        problems += failures
        if view == "vms":
            self.happened(provision_report.ends(hypervisors, problems))
        hypervisors, count = _selected(hypervisors, options)
        ending = cells.statements(hypervisors, well=view == "host_info")
        more = columns.named(options["columns"])
        shown: Answer = {"hypervisors": hypervisors}
        overdue: list[str] = []
        if view == "list" and options["backup_hours"] is not None:
            shown["overdue"], overdue, unread = self._overdue(hypervisors, options)
            problems += unread
        ending = [*map(tables.clean, ending), *overdue]
        text = _output.render(
            options["output"],
            shown,
            lambda: "\n".join([_table(hypervisors, options, count, more, check=check), *ending]),
            lambda: records.text(view, hypervisors, options["sort"], more, predicted=check),
        )
        diff = bool(self._task.diff)
        delivered = _output.deliver(text, options["output_file"], check=check, diff=diff)
        result: Answer = {**shown, "output": text, **delivered}
        apart = options["output"] != "table" or bool(options["output_file"])
        return self.concluded(result, problems, apart=apart)

    def _read_here(
        self,
        task_vars: Values,
        options: VirtShowOptions,
        given: t.Mapping[str, Answer],
    ) -> dict[str, Answer]:
        """The results of hypervisors that the controller reads itself, in the order of the play."""
        names = [name for name, answer in given.items() if answer.get("direct")]
        seconds = options["_direct"]
        if not names or seconds is None:
            return {}
        # libvirt's binding is loaded only where it is needed
        from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _direct

        view = options["view"]
        reader: _direct.Reader = _direct.host_info
        if view != "host_info":
            reader = _direct.domains(
                options["names"],
                addresses=view == "query",
                storage=view == "query" or options["output"] != "table",
            )
        answers = _direct.answers(names, reader, task_vars, seconds=seconds, lost=self.lost())
        return {name: {**read(answer, _ANSWERS[view])} for name, answer in answers.items()}

    def _noted(
        self,
        task_vars: Values,
        options: VirtShowOptions,
        hypervisors: t.Sequence[Answer],
        direct: bool,
    ) -> bool:
        """Add what others noted of hypervisors that do not answer; False if another task has to
        read that first. ``direct``: the controller reads it itself."""
        lost = self.lost()
        there = [str(entry["name"]) for entry in hypervisors if entry["answered"]]
        silent = [
            name
            for entry in hypervisors
            if not entry["answered"] and (name := str(entry["name"])) not in lost
        ]
        if not (options["noted"] and self.staged and silent and there):
            return True
        if not (direct or options["_told"]):
            self._silent, self._ask = silent, there
            return False
        # loaded only where a hypervisor does not answer
        from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import noted
        from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.silent import Told

        if direct:
            from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _direct

            seconds = options["_direct"] or 0
            read_here = _direct.answers(
                there, _direct.noted(silent), task_vars, seconds=seconds, lost=lost
            )
            told = {name: read(answer, Told) for name, answer in read_here.items()}
        else:
            told = self.answers(str(options["_told"]), Told, "noted", verb="virt_query")
        noted.add(hypervisors, told, silent, options["names"])
        return True

    def _overdue(
        self, hypervisors: t.Sequence[Answer], options: VirtShowOptions
    ) -> tuple[list[OverdueVm], list[str], list[str]]:
        """The VMs that are shown whose backup is older than wished, lines about them, and why
        backups could not be read."""
        # loaded only where somebody wishes to know
        from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import ages
        from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import (
            require_hours,
        )
        from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _ages, _place

        hours = options["backup_hours"] or 0.0
        require_hours("virt_backup_hours", hours)
        vms = [
            (str(domain["name"]), str(domain["uuid"]))
            for entry in hypervisors
            for domain in as_mappings(entry["domains"])
            if domain.get("uuid")
        ]
        access = _place.access(self._values, self._templar)
        overdue, problems = _ages.overdue(vms, options["backup_places"], access, hours)
        return overdue, ages.lines(overdue, hours), problems

    def _made(self, options: VirtShowOptions) -> tuple[list[Answer], list[str]]:
        """The results of requested VMs; without ``requested``, of those in the results."""
        own = (self.header.run, "virt_init")
        created = registered(self._values, options["results"], Made, *own)
        waiting = (self.header.run, "virt_wait")
        waited = registered(self._values, options["addresses"], Waited, *waiting)
        ended: Answer = {}
        restarts: Answer = {}
        waits: dict[str, list[str]] = {}
        if self.staged:
            ended = _ended.of(self)
            restarts = self.latest("virt_restarts", "virt_state")
            waits = shares(self.latest("virt_placed", "virt_place")["waits"])
        requested = shares(ended.get("requested"))
        if not self.staged:
            requested = {
                host: [*dict.fromkeys(vm["name"] for vm in vms)]
                for host, answer in created.items()
                if (vms := answer.get("vms"))
            }
        made = provision_report.Made(
            requested,
            created,
            {host: as_mappings(entries) for host, entries in as_mapping(ended.get("done")).items()},
            waits,
            waited,
            shares(ended.get("refused")),
            restarted=frozenset(texts(restarts.get("restarted"))),
        )
        hypervisors, failures = provision_report.report(made, check=self.check)
        unfinished = [str(why) for why in as_mapping(restarts.get("failures")).values()]
        return hypervisors, [*unfinished, *texts(ended.get("problems")), *failures]

    def _undone(self, options: VirtShowOptions) -> list[str]:
        """Messages for hypervisors, except lost ones, that returned no result of a step."""
        lost = self.lost(options["lost"])
        names = [name for name in hosts(self._values) if name not in lost]
        names_by_problem: dict[str, list[str]] = {}
        for step in options["acted"]:
            answers = registered(self._values, step["results"], run=self.header.run)
            for name in outcomes.without_answer(names, answers, step["returns"]):
                problem = f"{step['undone']}: {outcomes.error_message(answers[name])}"
                names_by_problem.setdefault(problem, []).append(name)
        return [f"{', '.join(those)}: {problem}" for problem, those in names_by_problem.items()]


def _answers(task_vars: Values, variable: str, view: str, run: str) -> dict[str, Answer]:
    kind, verb = _ANSWERS.get(view), _VERBS[view]
    if kind is None:
        return registered(task_vars, variable, run=run, verb=verb)
    answers = registered(task_vars, variable, kind, run, verb)
    return {name: {**answer} for name, answer in answers.items()}


def _selected(hypervisors: list[Answer], options: VirtShowOptions) -> tuple[list[Answer], str]:
    """The domains to show, and their count if some are left out."""
    chosen = selection.Selection(
        tuple(options["states"]),
        tuple(options["groups"]),
        tuple(options["patterns"]),
        options["managed"],
    )
    if options["view"] in ("list", "query"):
        return selection.select(hypervisors, chosen, options["sort"])
    if chosen or options["sort"] or options["columns"]:
        raise AnsibleActionFail(
            f"view: {options['view']} shows no domains, so states, groups, patterns, managed, sort"
            " and columns do not apply; use them with list or query"
        )
    return hypervisors, ""


def _table(
    hypervisors: list[Answer],
    options: VirtShowOptions,
    count: str,
    more: t.Sequence[columns.Column],
    *,
    check: bool,
) -> str:
    none = tables.NONE_NAMED if options["names"] else tables.NONE
    if options["view"] == "list":
        domains = selection.flat(hypervisors, options["sort"])
        return tables.listing(hypervisors, domains, count, more, none)
    if options["view"] == "query":
        return tables.query(hypervisors, count, more, none)
    return tables.render(options["view"], hypervisors, predicted=check)


def _collect(answers: t.Mapping[str, Answer], view: str) -> list[Answer]:
    """What each host of the play returned, as it is shown."""
    key = _VIEWS[view]
    entries: list[Answer] = []
    for name, answer in answers.items():
        content = answer.get(key)
        error = None
        if content is None:
            error = outcomes.reason(answer)
        entry: Answer = {
            "name": name,
            "answered": content is not None,
            "error": error,
            key: content,
        }
        if key == "domains":
            entry["cell"] = answer.get("cell")
            if content is None:
                entry[key] = []
        entries.append(entry)
    return entries


def _unmarked(answers: t.Mapping[str, Answer]) -> list[str]:
    return [
        f"{name}: its maintenance mark is unchanged or unknown:"
        f" {outcomes.error_message(answers[name])}"
        for name in outcomes.without_answer(answers, answers, "maintenance")
    ] + [f"{name}: {told}" for name, answer in answers.items() if (told := answer.get("cell"))]


def _cut(answers: t.Mapping[str, Answer], failures: t.Sequence[str]) -> list[str]:
    """Messages for modules that were killed or raised, unless no hypervisor answered at all.

    An unreachable hypervisor does not make reading the others fail; this does.
    """
    silent = {} if failures else answers
    return [
        f"{name}: {outcomes.error_message(answer)}"
        for name, answer in silent.items()
        if outcomes.is_cut(answer)
    ]


def _damage(hypervisors: t.Sequence[Answer]) -> list[str]:
    return [
        f"{entry['name']}: {image['path']} no longer matches its digest, so every VM that uses it"
        f" is suspect (used by {', '.join(texts(image['users'])) or 'no VM'})"
        for entry in hypervisors
        for image in as_mappings(entry["images"])
        if image["intact"] is False
    ]
