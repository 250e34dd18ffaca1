# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    located,
    outcomes,
    proofs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight.state import Answers
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import Marked
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import MigrateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import (
    marks,
    plan,
    reboot,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.facts import (
    RollingAnswer,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.options import (
    ALWAYS,
    ARGUMENTS,
    NEVER,
    RollingWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    texts,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing

# When the first process began tells the restart of a container, whose boot id is its machine's
_BOOT = "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat"
_BOOTED = "timeout 300 systemctl is-system-running --wait || true"
# What the work on a hypervisor registers, in its order, and the stage of each
_WORK = (
    ("claimed", "claim"),
    ("begun", "begin"),
    ("rebooted", "reboot"),
    ("checked", "check"),
)
_LINE = 300  # characters of what a command printed last
_PLAN = "virt_rolling_plan"
_MOVES = "virt_rolling_moves"  # the report of the last moves


class VirtRollingOptions(Connected):
    tasks: str | None
    host: str | None
    reboot: str
    reboot_timeout: int
    serial: int
    skip_unmovable: bool
    resume: bool
    relax: bool


class ActionModule(StagedAction[RollingWork]):
    """The module reads, marks and tries a VM; this decides the order and says what came of it."""

    WORK = RollingWork
    CONTROLLER = ("decide", "prepare", "note", "report", "summary")
    REPORTS = ("report", "summary")

    def decided(self, work: RollingWork) -> Answer:
        stages: dict[str, t.Callable[[RollingWork], Answer]] = {
            "decide": self._decide,
            "prepare": self._prepare,
            "note": self._note,
            "report": self._report,
            "summary": self._summary,
        }
        return stages[work.stage](work)

    def asked(self, work: RollingWork, task_vars: Values) -> Answer:
        if work.stage != "look":
            work = dataclasses.replace(work, digest=str(self.decision(_PLAN)["digest"]))
        if work.stage == "begin":
            work = dataclasses.replace(work, turn=texts(self._turns()[work.round]["work"]))
        if work.stage == "reboot":
            return self._reboot(self.options(VirtRollingOptions, ARGUMENTS), work, task_vars)
        return super().asked(work, task_vars)

    def _reboot(self, options: VirtRollingOptions, work: RollingWork, task_vars: Values) -> Answer:
        """Reboot it if that is wanted, by Ansible's own action, and say so."""
        answer = super().asked(work, task_vars)
        if answer.get("failed") or answer.get("unreachable") or answer.get("at") is None:
            return answer
        why = "as requested" if options["reboot"] == ALWAYS else answer.get("reboot")
        if why is None or options["reboot"] == NEVER:
            return {**answer, "rebooted": False}
        held = answer.get("held") is True
        running = texts(answer.get("running"))
        kept = reboot.kept_by(running, str(why), held=held, check=self.check)
        if kept:
            return {"failed": True, "msg": kept, "held": held}
        _output.say(f"{task_vars['inventory_hostname']}: reboot: {why}")
        result = self.own_action(
            "ansible.builtin.reboot",
            {
                "boot_time_command": _BOOT,
                "test_command": _BOOTED,
                "reboot_timeout": options["reboot_timeout"],
            },
        )
        if result.get("failed") or result.get("unreachable"):
            return {**result, "msg": f"it was to reboot ({why}): {outcomes.reason(result)}"}
        return {**answer, "changed": True, "rebooted": True}

    def _decide(self, _work: RollingWork) -> Answer:
        options = self.options(VirtRollingOptions, ARGUMENTS)
        path, digest = _tasks(options["tasks"])
        if options["serial"] < 1:
            raise PlanRefused(f"virt_serial: {options['serial']} is not a number of 1 or more")
        given = self.answers("virt_look", MigrateLook, "look", verb="virt_migrate")
        lost = self.lost()
        seen = located.sort(given, "host", self.expected(), lost)
        looked = self.answers("virt_rolling_look", RollingAnswer, "look")
        progress = marks.current(
            {
                name: marks.progress(answer.get("marks") or [], digest, answer.get("at") or 0)
                for name, answer in looked.items()
            }
        )
        if not options["resume"]:
            progress = {name: marks.Progress(one.begun) for name, one in progress.items()}
        answers = {name: answer for name, answer in seen.answers.items() if looked[name].get("at")}
        unread = {
            name: proofs.Silence(outcomes.reason(looked[name]), reached=True)
            for name in seen.answers
            if name not in answers
        }
        selected = self._selected(options["host"], list(given))
        mute = {name: answer for name, answer in given.items() if name not in seen.answers}

        def hosts(those: Answers) -> list[placement.PlacementHost]:
            limits = {name: _placing.limits_of(name, self._values) for name in those}
            return _placing.hosts_of({**mute, **those}, limits, lost)

        variables = Variables(self._values, self._templar)
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        mute_now = {**seen.silent, **unread}
        fleet = plan.Fleet(hosts, mute_now, policy, options["relax"])
        rolling = plan.plan(
            selected,
            answers,
            progress,
            fleet,
            serial=options["serial"],
            skip_unmovable=options["skip_unmovable"],
        )
        text = report.plan_text(rolling)
        _output.say(text)
        return {
            "changed": False,
            "output": text,
            "tasks": path,
            "digest": digest,
            "selected": selected,
            "turns": [
                {"hosts": turn.hosts, "work": turn.hosts if turn.work else []}
                for turn in rolling.turns
            ],
            "passed": list(rolling.passed),
            "left_out": rolling.left_out,
            "skipped": rolling.skipped,
        }

    def _selected(self, pattern: str | None, present: list[str]) -> list[str]:
        """The hypervisors to work on, in the order of the inventory."""
        if not pattern:
            return present
        matched = _peers.matching(pattern, self._loader, self._values)
        manager = _peers.inventory(self._loader, self._values)
        missing = _peers.unmatched(pattern, manager) if matched else []
        if missing:
            raise PlanRefused(f"virt_host: {_peers.unmatched_message(pattern, missing)}")
        selected = [name for name in present if name in matched]
        if not selected:
            raise PlanRefused(
                f"virt_host: {pattern!r} matches no hypervisor of this play; there are:"
                f" {', '.join(present)}"
            )
        return selected

    def _turns(self) -> list[t.Mapping[str, object]]:
        return as_mappings(self.decision(_PLAN)["turns"])

    def _prepare(self, work: RollingWork) -> Answer:
        turns = self._turns()
        names = ", ".join(texts(turns[work.round]["hosts"]))
        _output.say(f"turn {work.round + 1} of {len(turns)}: {names}")
        return {"changed": False}

    def _note(self, _work: RollingWork) -> Answer:
        """Which task failed here; a result of a user's task may be anything."""
        result = as_mapping(to_plain(self._values.get("ansible_failed_result")))
        task = self._values.get("ansible_failed_task")
        name = as_mapping(to_plain(task)).get("name") if isinstance(task, dict) else None
        name = name or getattr(task, "name", None) or "a task"
        errors = str(result.get("stderr") or "").strip().splitlines()
        more = f": {errors[-1].strip()[:_LINE]}" if errors else ""
        return {"changed": False, "why": f"{name}: {outcomes.reason(result)}{more}"}

    def _report(self, work: RollingWork) -> Answer:
        turns = self._turns()
        number = work.round
        verdicts = [
            self._verdict(host, number, worked=host in texts(turns[number]["work"]))
            for host in texts(turns[number]["hosts"])
        ]
        passed = texts(self.decision(_PLAN)["passed"])
        text, failures = report.turn_text(
            verdicts, [texts(turn["hosts"]) for turn in turns], number, passed
        )
        told = [outcomes.Failure(host, why) for host, why in failures.items()]
        return self.shown(text, told)

    def _verdict(self, host: str, number: int, *, worked: bool) -> report.TurnVerdict:
        """What came of the turn of a hypervisor."""
        finished = self.answers("virt_finished", RollingAnswer, "finish", number)[host]
        marked = self.answers("virt_marked", Marked, "act", verb="virt_maintenance")[host]
        why = self.answers("virt_turn_failed", RollingAnswer, "note", number)[host].get("why") or ""
        begun, rebooted, checked = RollingAnswer(), RollingAnswer(), RollingAnswer()
        if worked:
            claimed, begun, rebooted, checked = (
                self.answers(f"virt_{name}", RollingAnswer, stage, number)[host]
                for name, stage in _WORK
            )
            why = why or report.incomplete(claimed, begun, rebooted, checked, self._moves_failed())
        if not why and not self.check and not finished.get("finished"):
            told = self._moves_failed() or [outcomes.reason(finished)]
            why = f"not all is as it was: {'; '.join(told)}"
        text = self._done(begun, checked) if worked else "done, its VMs have returned"
        stays = report.is_marked(marked, check=self.check) and rebooted.get("held") is not False
        return report.TurnVerdict(host, why, text, stays)

    def _done(self, begun: RollingAnswer, checked: RollingAnswer) -> str:
        if self.check:
            return "would be worked on"
        needed = checked.get("reboot")
        still = f"; it is still to be rebooted: {needed}" if needed else ""
        versions = report.change(begun.get("versions"), checked.get("versions"))
        return f"done; {versions}{still}"

    def _moves_failed(self) -> list[str]:
        """What the report of the last moves says that failed."""
        header = as_mapping(as_mapping(to_plain(self._values.get(_MOVES))).get("_work"))
        failing = as_mapping(header.get("failing"))
        return [message for host in failing for message in texts(failing[host])]

    def _summary(self, _work: RollingWork) -> Answer:
        """What is left; every turn has been reported, and all were well."""
        decision = self.decision(_PLAN)
        left_out = {str(k): str(v) for k, v in as_mapping(decision["left_out"]).items()}
        skipped = {str(k): str(v) for k, v in as_mapping(decision["skipped"]).items()}
        turned = [host for turn in self._turns() for host in texts(turn["hosts"])]
        passed = texts(decision["passed"])
        word = "would be done" if self.check else "done"
        text = f"{word}: {', '.join([*passed, *turned]) or 'none'}\n"
        text += report.left_text(left_out, skipped)
        failures = [
            outcomes.Failure(
                host, f"{host} was left out: {why}; once it can be worked on, run it again"
            )
            for host, why in left_out.items()
        ]
        return self.shown(text, failures)


def _tasks(given: str | None) -> tuple[str, str]:
    """The absolute path of the file of tasks, and its digest."""
    if not given or not given.strip():
        raise PlanRefused(
            "virt_tasks is missing; name the file with the tasks for each hypervisor, for example"
            " -e virt_tasks=upgrade.yml"
        )
    path = os.path.abspath(os.path.expanduser(given))
    try:
        with open(path, "rb") as file:
            return path, marks.digest_of(file.read())
    except OSError as error:
        raise PlanRefused(
            f"virt_tasks: {path}: {error.strerror}; name a file with tasks of Ansible"
        ) from None
