# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.module_utils.common.validation import check_type_list
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.options import devices_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.plan import SWITCHED
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers, _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import FleetModule


class ActionModule(FleetModule):
    """The module does everything; in a playbook this reads the variables of the other host."""

    def asked(self, _work: object, task_vars: Values) -> Answer:
        hosts = list(dict.fromkeys(check_type_list(to_plain(self.given["host"]))))
        stated = self._named(_stated.FENCED, hosts)
        ignored = self._named(_stated.SIGNS_IGNORED, hosts)
        both = [host for host in ignored if host in stated]
        if both:
            raise PlanRefused(
                f"{_stated.FENCED} and {_stated.SIGNS_IGNORED} name {', '.join(both)}: what answers"
                " in its place is ignored only where its devices say that it is off; leave out"
                f" {_stated.FENCED} and declare virt_fence of {both[0]}, or end what answers"
            )
        # nothing is switched before it is known of all how they are proven off
        given = [self._arguments(str(host), stated, task_vars) for host in hosts]
        for arguments in given:
            arguments["ignore_signs"] = arguments["host"] in ignored
            # the playbook has required that somebody would have heard it
            arguments["_audible"] = True
        answers: list[Answer] = []
        for arguments in given:
            answer = self.module(task_vars, arguments)
            if not answer.get("outcome"):
                return _failed(answer, answers)
            answers.append(answer)
        switched = [answer for answer in answers if answer["outcome"] == SWITCHED]
        return {**[*switched, *answers][0], "text": _texts(answers)}

    def _named(self, variable: str, hosts: t.Sequence[str]) -> list[str]:
        """The hypervisors that a variable names for this run, all of them of ``hosts``."""
        named = _stated.for_this_run(self, variable)
        others = [host for host in named if host not in hosts]
        if others:
            raise PlanRefused(
                f"{variable} names {', '.join(others)}, not {' or '.join(hosts)}, whose VMs are to"
                f" be restarted; give -e {variable}={','.join(hosts)} if that is meant"
            )
        return named

    def _arguments(self, host: str, stated: t.Sequence[str], task_vars: Values) -> Answer:
        """The module's options for one hypervisor."""
        variables = _peers.of_host(host, task_vars)
        arguments: Answer = {"host": host, **_peers.where_it_answers(host, task_vars)}
        declared = to_plain(variables.get("virt_fence"))
        if host in stated:
            arguments["stated"] = True
            lease = self._values.get("virt_fenced_lease")
            if lease is not None:
                arguments["lease"] = to_plain(self._templar.template(lease))
        elif declared:
            arguments["devices"] = devices_of(declared, f"virt_fence of {host}")
        else:
            raise PlanRefused(
                f"{host} is not proven off: its variable virt_fence is missing; declare there what"
                " switches it off, for example {agent: fence_ipmilan, ip: 192.0.2.113, username:"
                " admin, password: ...}, or, if you have seen that it is without power, state it"
                f" for this run: -e {_stated.FENCED}={host}"
            )
        return arguments


def _texts(answers: t.Sequence[Answer]) -> str:
    return "; ".join(str(answer["text"]) for answer in answers)


def _failed(answer: Answer, before: t.Sequence[Answer]) -> Answer:
    """The answer that one is not proven off; others were ``before``."""
    said = [str(answer["msg"])] if answer.get("msg") else []
    return {**answer, "msg": "; ".join([*([_texts(before)] if before else []), *said])}
