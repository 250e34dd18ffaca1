# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Actions of verbs that a playbook does in several tasks, on hypervisors and on the controller.

Each task says in its ``_work`` which stage it is; the rest of the header is derived here, and what
a stage on the controller needs it reads from what earlier ones registered. Every end of a stage on
a hypervisor is an answer, so that the play goes on and the report says it. So is a report of what
failed: after it the last stage, ``end``, fails each host for what failed there, so that the recap
names it. A module used alone has no ``_work``, and fails as Ansible's do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import A, Result
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    envelope,
    located,
    outcomes,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.declaration import (
    Entry,
    Fleet,
    Verb,
    Vm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import (
    AnyWork,
    Selecting,
    Work,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive, _constants
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core._once import FailedStage
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    shares,
    texts,
    to_plain,
)

_ABOVE = "something failed here; the messages above say what"


_OUTPUT = "fleet.virt.output"  # the callback that prints what failed for itself


class StagedAction(FleetAction, t.Generic[AnyWork]):
    """An action whose tasks are stages of a verb; ``CONTROLLER`` has those that run there."""

    WORK: type[AnyWork]
    CONTROLLER: t.ClassVar[t.Sequence[str]] = ("decide", "report")
    REPORTS: t.ClassVar[t.Sequence[str]] = ("report",)
    REPORTED = "virt_reported"  # the variable as which tasks register a report

    @property
    def staged(self) -> bool:
        """Whether this task is a stage of a playbook of the collection."""
        return envelope.OPTION in self._task.args

    @functools.cached_property
    def given_work(self) -> AnyWork:
        """The work of this task; raises FleetVirtError for one that was decided in another run."""
        given = as_mapping(to_plain(self._task.args.get(envelope.OPTION)))
        own = self.header
        for name, value in (("run", own.run), ("verb", own.verb)):
            if given.get(name, value) != value:
                raise PlanRefused(
                    f"{self._task.get_name()}: the {name} of its work is {given.get(name)}, not"
                    f" {value}; run the playbook again"
                )
        given = {**given, "run": own.run, "verb": own.verb}
        return envelope.read(self.WORK, {envelope.OPTION: given})

    def work(self, task_vars: Values) -> Mapping[str, object]:
        if not self.staged:
            return self.alone(task_vars)
        work = self.given_work
        if work.stage in self.CONTROLLER:
            return self.decided(work)
        return self.asked(work, task_vars)

    def alone(self, task_vars: Values) -> Answer:
        """The result of a task that is no stage of a playbook."""
        return self.module(task_vars)

    def asked(self, work: AnyWork, task_vars: Values) -> Answer:
        """The answer of this hypervisor to a stage."""
        return self.module(task_vars, {**self.given, envelope.OPTION: envelope.plain(work)})

    def decided(self, work: AnyWork) -> Mapping[str, object]:
        """The result of a stage on the controller."""
        raise NotImplementedError

    def _worked(self, values: Values) -> Answer:
        if not self.staged:
            return super()._worked(values)
        work = self.given_work
        if work.stage == envelope.END:
            return self._conclude()
        if work.stage in self.REPORTS:
            return self._reported(work, values)
        if work.stage in self.CONTROLLER:
            try:
                decision = super()._worked(values)
            except FleetVirtError as error:
                raise FailedStage(str(error), {"error": type(error).__name__}) from None
            # What failed is no decision, and Ansible shows it
            return decision if decision.get("failed") else {**decision, **envelope.echo(work)}
        return envelope.answered(work, self._ending(values))

    def _reported(self, work: AnyWork, values: Values) -> Answer:
        """The report; what failed stands in its header, by host, for the last stage."""
        try:
            report = super()._worked(values)
        except FleetVirtError as error:
            raise FailedStage(str(error), {"error": type(error).__name__}) from None
        self.tell()
        failing = self._by_host() if report.get("failed") else {}
        apart = self._apart or _constants.stdout_callback() == _OUTPUT
        if failing and not (apart or self._said):
            text = str(report.get("output"))
            unsaid = [message for message in self._failures if message not in text]
            _output.say("\n".join(unsaid))
        header = envelope.echo(work, failing=failing, shown=not apart)
        return {**report, "failed": False, **header}

    def _by_host(self) -> dict[str, list[str]]:
        """The failures by host."""
        return self._sorted(self._failures)

    def _sorted(self, failures: t.Sequence[str]) -> dict[str, list[str]]:
        """Messages by host; Ansible has no longer in the play who failed before."""
        own = str(self._values.get("inventory_hostname"))
        present = texts(self._values.get("ansible_play_hosts"))
        return outcomes.by_host(failures, list(dict.fromkeys([own, *present])))

    def _conclude(self) -> Answer:
        """Fail this host for what the report says of it. Ansible names it in its recap.

        The task is one for all playbooks, so the report is of any verb, but of this play.
        """
        registered = as_mapping(to_plain(self._values.get(self.REPORTED)))
        header = as_mapping(registered.get(envelope.OPTION))
        if header.get("run") != self.header.run or "failing" not in header:
            raise PlanRefused(f"{self.REPORTED} is no report of this run; run the playbook again")
        failing = as_mapping(header.get("failing"))
        failures = texts(failing.get(str(self._values.get("inventory_hostname"))))
        if not failures:
            return {"changed": False}
        raise FailedStage(_ABOVE if header.get("shown") else "\n".join(failures), {})

    def _ending(self, values: Values) -> Answer:
        """How the stage ended on this hypervisor, as a module's or a task's result has it."""
        try:
            return super()._worked(values)
        except FleetVirtError as error:
            return {"failed": True, "msg": str(error), "error": type(error).__name__}
        except AnsibleConnectionFailure as error:
            host = str(values.get("inventory_hostname") or "it")
            return {"unreachable": True, "msg": outcomes.unreached(str(error), host)}
        except AnsibleError as error:
            return {"failed": True, "msg": str(error)}
        except BaseException as error:
            if not _alive.is_over(error):
                raise
            return {"failed": True, "msg": _alive.over(self._task.timeout)}

    def cleanup(self, force: bool = False) -> None:
        """Clean up; a hypervisor that fell silent has answered by what its module returned."""
        with contextlib.suppress(*([AnsibleConnectionFailure] if self.staged else [])):
            super().cleanup(force)

    def answers(
        self, variable: str, kind: type[A], stage: str, number: int = 0, verb: str = ""
    ) -> dict[str, A]:
        """What each host of the play answered to this stage of this run, registered as
        ``variable``; ``verb`` is the one of another action's tasks."""
        expected = self._expected(stage, number, verb)
        return _registered.answers(self._values, variable, kind, expected)

    def fleet(
        self, variable: str, kind: type[A], stage: str, key: str = "vms", number: int = 0
    ) -> located.Fleet[A]:
        """Who answered to this stage, and who did not and is not declared lost; an answer is what
        has ``key``. Raises PlanRefused as :func:`located.sort` does."""
        answers = self.answers(variable, kind, stage, number)
        return located.sort(answers, key, self.expected(), self.lost())

    def decision(
        self, variable: str, stage: str = "decide", number: int = 0, verb: str = ""
    ) -> Answer:
        """What an earlier stage of this run on the controller decided.

        Raises PlanRefused if there is none: nothing else may be taken for it.
        """
        registered = as_mapping(to_plain(self._values.get(variable)))
        decision = envelope.opened(registered, self._expected(stage, number, verb))
        if not decision or decision.get("failed") or decision.get("skipped"):
            raise PlanRefused(
                f"{variable} is no decision of this run: {decision.get('msg', 'it was not made')};"
                " run the playbook again"
            )
        return decision

    def latest(self, variable: str, verb: str) -> Answer:
        """What the last stage of this run on the controller decided, whichever it is; empty if none
        did, as what an earlier play registered is none of this run's."""
        registered = as_mapping(to_plain(self._values.get(variable)))
        decision = envelope.of_run(registered, self.header.run, verb)
        known = envelope.OPTION in registered and not decision.get("failed")
        return decision if known else {}

    def shares(self) -> dict[str, list[str]]:
        """The names that each hypervisor works on, as ``virt_decision`` has them."""
        return shares(self.decision("virt_decision")["shares"])

    def _expected(self, stage: str, number: int, verb: str) -> Work:
        own = self.header
        return dataclasses.replace(own, stage=stage, round=number, verb=verb or own.verb)


class Selection(Connected):
    """The option that every verb on VMs has."""

    names: list[str]


class VerbAction(StagedAction[Selecting], t.Generic[Selecting, Vm, Entry]):
    """The action of a verb on VMs, by its declaration: the module runs the stages on the
    hypervisor; this runs those on the controller. Tasks register as ``virt_look`` what was seen, as
    ``virt_decision`` where the VMs are, and as ``virt_done`` what was done."""

    VERB: Verb[Vm, Entry]

    def decided(self, work: Selecting) -> Mapping[str, object]:
        options = self.options(Selection, self.VERB.arguments)
        if work.stage == "report":
            return self.report()
        seen = self.seen()
        self.VERB.request(options)
        host = self.chosen_host()
        decision = self.VERB.decide(options["names"], seen, work.groups, host)
        return {"changed": False, **vars(decision)}

    def seen(self, number: int = 0) -> Fleet:
        """What the hypervisors answered, in this round, on which VMs they have."""
        return self.fleet("virt_look", self.VERB.look, "look", number=number)

    def report(self) -> Answer:
        """What came of the VMs where they are."""
        done = self.answers("virt_done", self.VERB.done, "act")
        return self.reported(self.shares(), done, str(self.decision("virt_decision")["silent"]))

    def reported(
        self, names: Mapping[str, list[str]], done: Mapping[str, Result], silent: str
    ) -> Answer:
        """The report on ``names``, by hypervisor; ``silent`` as in :class:`located.Located`."""
        text, failures = self.VERB.report(names, done, check=self.check)
        self.happened(outcomes.outcomes(names, done))
        return self.shown(text, [*failures, *located.not_done(silent)])


class FleetModule(StagedAction[Work]):
    """The action of a module that needs nothing from the controller."""

    WORK = Work
    CONTROLLER = ()

    def asked(self, _work: Work, task_vars: Values) -> Answer:
        given = self.given
        del given[envelope.OPTION]  # the module has one stage
        return self.module(task_vars, given)


class FleetReader(FleetModule):
    """The action of a reading module; does nothing where the controller reads itself."""

    def work(self, task_vars: Values) -> Mapping[str, object]:
        direct = boolean(self._task.args.pop("_direct", False))
        return {"changed": False, "direct": True} if direct else super().work(task_vars)
