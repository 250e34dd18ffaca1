# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base classes of the collection's action plugins."""

from __future__ import annotations

import contextlib
import gc
import types
import typing as t
from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, visible
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    envelope,
    events,
    outcomes,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive, _flood, _packed
from ansible_collections.fleet.virt.plugins.plugin_utils.base import (
    _answers,
    _events,
    _output,
    _peers,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, to_plain


class Connected(t.TypedDict):
    """Options that every module of the action group has."""

    uri: str
    timeout: float


Options = t.TypeVar("Options", bound=Mapping[str, object])

# The connection options that every module of the action group accepts
_CONNECTION: Spec = {
    "uri": {"type": "str", "default": "qemu:///system"},
    "timeout": {"type": "float", "default": 10.0},
}

# They tell our modules what the inventory calls the hypervisor, and who runs Ansible
_HOST, _PERSON, _FORCE = "_host", "_person", "_force"
_TIDY = 30.0  # seconds to clean up on a hypervisor that may no longer respond


class Foreign(t.NamedTuple):
    """A sanitised result, and its facts as plain data."""

    answer: Answer
    facts: Answer


def failure(error: FleetVirtError) -> AnsibleActionFail:
    """The AnsibleActionFail for one of our own errors: its message, and its kind as in modules'
    results, so that a reader can tell a refused request from one that was cut off."""
    return AnsibleActionFail(str(error), result={"error": type(error).__name__})


class FleetAction(ActionBase):
    """An action that does :meth:`work`; our own errors end it with only their message.

    It sanitises every result from a hypervisor to plain data. Every module has an action for that,
    even if the action does nothing else.
    """

    _values: Values = types.MappingProxyType({})
    _failures: Sequence[str] = ()  # what made a report fail
    _apart = False  # whether what was shown is for programs, and has no room for messages
    _ends: Sequence[outcomes.Outcome[outcomes.Answer]] = ()  # what came of each VM
    _said = False  # whether what was shown has them

    def run(self, tmp: str | None = None, task_vars: Answer | None = None) -> Answer:
        result: Answer = super().run(tmp, task_vars)
        values = self._values = task_vars or {}
        _alive.keep(self._connection)
        _flood.guard(self._connection)
        try:
            with tables.fitting(None if self._to_file(values) else _output.columns()):
                result.update(self._worked(values))
        except FleetVirtError as error:
            raise failure(error) from None
        return result

    def _to_file(self, values: Values) -> bool:
        """Whether what the task shows goes to a file, where lines may have any length."""
        return bool(self._task.args.get("output_file") or values.get("virt_output_file"))

    def _worked(self, values: Values) -> Answer:
        _answers.require_own(values.get("inventory_hostname"), values)
        return t.cast("Answer", _output.shown(dict(self.work(values))))

    def cleanup(self, force: bool = False) -> None:
        """Clean up as Ansible does, within a limit of its own: the task's limit has passed."""
        with contextlib.suppress(FleetVirtError), _alive.limited(_TIDY, "remove temporary files"):
            clean: t.Callable[[bool], None] = super().cleanup
            clean(force)

    def work(self, task_vars: Values) -> Mapping[str, object]:
        """The result of the action for the task's host."""
        raise NotImplementedError

    def shown(self, text: str, failures: Sequence[str], *, changed: bool = False) -> Answer:
        """Display the outcome; returns the result, failed if there are failures."""
        _output.say(text)
        return self.concluded({"changed": changed, "output": text}, failures)

    def concluded(
        self,
        result: Answer,
        failures: Sequence[str],
        *,
        apart: bool = False,
        shown: bool = False,
        separator: str = "\n",
    ) -> Answer:
        """``result``, failed if there are failures. ``apart``: what was shown is data only;
        ``shown``: it has the failures, in other words."""
        if failures:
            self._failures, self._apart, self._said = [*dict.fromkeys(failures)], apart, shown
            result.update(failed=True, msg=separator.join(self._failures))
        return result

    def happened(self, ends: Sequence[outcomes.Outcome[outcomes.Answer]]) -> None:
        """Have it told, after the report, what came of each VM."""
        self._ends = ends

    def tell(self) -> None:
        """Tell the journal and the user's hook what came of the VMs; check mode does not."""
        if self.check or not self._ends:
            return
        header = self.header
        caller = events.Caller(_events.person(), header.run, header.verb)
        hook = self._templar.template(self._values.get(_events.VARIABLE))
        problem = _events.tell(
            [events.of_outcome(caller, end) for end in self._ends], to_plain(hook)
        )
        if problem:
            _output.warn(problem)

    def options(
        self,
        _kind: type[Options],
        arguments: Spec,
        internal: Spec | None = None,
    ) -> Options:
        """The task's options as plain data, validated against an argument spec to which ``uri`` and
        ``timeout`` are added.

        ``_kind`` is the type of the resulting options (a unit test compares it with the specs).
        ``internal`` are options that the collection's own tasks set; no error lists them.
        """
        given, own = self.given, dict(internal or {})
        given.pop(envelope.OPTION, None)  # see StagedAction
        internal_given = {name: given.pop(name) for name in own if name in given}
        options: Answer = {}
        for spec, values in (({**arguments, **_CONNECTION}, given), (own, internal_given)):
            validated = ArgumentSpecValidator(spec).validate(values)
            if validated.error_messages:
                problem = validated.error_messages[0]
                if validated.unsupported_parameters:
                    problem = f"Unsupported parameters for ({self._task.action}) module: {problem}"
                raise AnsibleActionFail(visible(problem))
            options.update(validated.validated_parameters)
        return t.cast("Options", to_plain(options))  # the type that validation ensures

    @property
    def given(self) -> Answer:
        """The task's options as written."""
        return {**self._task.args}

    @property
    def check(self) -> bool:
        """Whether the task runs in check mode."""
        return bool(self._task.check_mode)

    @property
    def header(self) -> envelope.Work:
        """Which run and which verb this task belongs to: what the play and the task are."""
        verb = str(self._task.action).rpartition(".")[2]
        return envelope.Work(run=str(self._task.get_play()._uuid), verb=verb)

    def _require_there(self) -> None:
        """Treat a hypervisor that is declared lost as unreachable, without contacting it."""
        host = str(self._values.get("inventory_hostname"))
        if host in self.lost():
            raise AnsibleConnectionFailure(_alive.lost(host))

    def lost(self, stated: list[str] | None = None) -> list[str]:
        """The hypervisors that are declared permanently gone: what an option states, else the
        play's variable, which no task can forget."""
        if stated is not None:
            return stated
        lost = self._values.get("virt_hypervisors_lost")
        return [] if lost is None else sorted(_alive.named(self._templar.template(lost)))

    def chosen_host(self) -> str:
        """The hypervisor whose VMs alone are meant where several have VMs of one name, by the
        play's variable; of verbs for which it is not where a VM goes."""
        return str(self._templar.template(self._values.get("vm_host")) or "")

    def expected(self, stated: list[str] | None = None) -> list[str]:
        """The hypervisors of the fleet: what an option states, else what the play's variables say.

        ``--limit`` may have left some of them out of the play, and these may have the VM too.
        """
        if stated is not None:
            return stated
        pattern = self._values.get("virt_hosts", "hypervisors")
        return _peers.matching(self._templar.template(pattern), self._loader, self._values)

    def _low_level_execute_command(self, *args: object, **options: object) -> Answer:
        self._require_there()
        run: t.Callable[..., Answer] = super()._low_level_execute_command
        done = run(*args, **options)
        _answers.require_small(str(done.get("stdout") or ""))
        return done

    def _execute_module(self, *args: object, **options: object) -> Answer:
        self._require_there()
        run: t.Callable[..., Answer] = super()._execute_module
        name = str(options.get("module_name") or self._task.action)
        given = t.cast("Answer | None", options.get("module_args"))
        own = {_HOST: self._values.get("inventory_hostname"), _PERSON: _events.person()}
        forced = self._templar.template(self._values.get("vm_force"))
        own.update({_FORCE: True} if forced not in (None, "") and boolean(forced) else {})
        options["module_args"] = {**(self._task.args if given is None else given), **own}
        with _packed.cached(name):
            answer = _answers.cleaned(run(*args, **options))
        if outcomes.is_cut(answer):
            answer["msg"] = f"{name}: {outcomes.error_message(answer)}"
        return answer

    def foreign(self, name: str, arguments: Mapping[str, object]) -> Foreign:
        """The result of a module of another collection. Its facts are not set as variables."""
        self._require_there()
        with _uncollected():
            answer = super()._execute_module(
                module_name=name, module_args={**arguments}, task_vars=self._values
            )
        return Foreign(_answers.cleaned(answer), _answers.facts(answer))

    def own_action(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """The result of an action of Ansible's own, as plain data without facts."""
        self._require_there()
        task = self._task.copy()
        task.args = {**arguments}
        action = self._shared_loader_obj.action_loader.get(
            name,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        return _answers.cleaned(action.run(task_vars=self._values))

    def module(self, task_vars: Values, arguments: Mapping[str, object] | None = None) -> Answer:
        """The result of the module of the same name; ``arguments`` replace the task's."""
        given = None if arguments is None else {**arguments}
        with _uncollected():
            return self._execute_module(module_args=given, task_vars=task_vars)


@contextlib.contextmanager
def _uncollected() -> t.Iterator[None]:
    """Disable Python's cyclic garbage collector.

    Packing a module parses all its imports into hundreds of thousands of objects that stay; the
    collector would traverse them, and the fleet's variables, over and over.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
