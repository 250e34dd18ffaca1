# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome for each requested name: it was done, or it failed, and why.

A task with ``failed_when: false`` registers no failure, whatever happened to its module. So only
the content of a result counts: a name without an outcome in it has failed.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ..._records import dataclass
from ..base.tables import clean

Answer = Mapping[str, object]

_AGAIN = "run it again: completed steps are not repeated, unfinished ones are completed"
_UNKNOWN = f"what it had done by then is unknown, so {_AGAIN}"
_MEND = f"fix that, and {_AGAIN}"
# Names of errors of modules that did not do what was requested
_REFUSALS = ("DependencyMissing", "HostUnreachable", "PlanRefused", "SpecError")
# Ansible's messages about options, with which a module ends before it does anything
_OPTIONS = re.compile(
    r"value of \S+ must be|argument '\S+' is of type|missing required arguments: "
    r"|Unsupported parameters for "
)
_NOT_ASKED = "fix what failed before, and run it again"
_SHOWN = 400
_BY_SIGNAL = 128  # a shell's exit status of a program that was killed, without the signal's number
_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_LAST_SIGNAL = 64  # of Linux
# Ansible's messages about a module that printed no result, whatever the reason
_NO_RESULT = ("MODULE FAILURE", "Module result deserialization failed")
# What Ansible, of every version, and ssh write before the reason why a hypervisor is silent
_UNREACHED = re.compile(
    r"^(?:Task failed: )?"
    r"(?:Failed to connect to the host via \w+: "
    r"|Data could not be sent to remote host .+?\. Make sure this host can be reached over \w+: ?)"
    r"(?:ssh: connect to host \S+ port (?P<port>\d+): )?"
)
# What Ansible writes where a connection that it had begins a command, and nothing comes back: sudo
# would have asked for a password, which stands after it
_NOTHING_CAME = re.compile(
    r"^(?:Task failed: )?Timeout \((?P<seconds>\d+)s\) waiting for privilege escalation prompt:\s*$"
)
_PORT = "22"  # where everybody expects ssh
_BROKEN = "[Errno 32] Broken pipe"
# Messages of a shell and of ssh, whatever ended the module
_NO_NEWS = ("(traceback", "Killed", "Shared connection to ", "Connection to ", *_NO_RESULT)


class Failure(str):
    """A message about what failed, which knows the ``host`` that was to do it.

    Reports add messages up as text, and the last task of a playbook says on which host each is.
    """

    __slots__ = ("host",)

    def __new__(cls, host: str, text: str) -> Failure:  # Python 3.9 has no Self
        failure = super().__new__(cls, text)
        failure.host = host
        return failure

    host: str

    def __reduce__(self) -> tuple[type[Failure], tuple[str, str]]:
        """For copies: without it a copy would be made from the text alone."""
        return type(self), (self.host, self.plain)

    @property
    def plain(self) -> str:
        """The text alone, which is what results have: Ansible takes no other type."""
        return "".join(self)


Entry = t.TypeVar("Entry", bound=Answer)


@dataclass(frozen=True)
class Outcome(t.Generic[Entry]):
    """The outcome for ``name`` on ``host``: ``entry`` is what the hypervisor reported about it,
    None if nothing; ``problem`` is None if it was done."""

    host: str
    name: str
    entry: Entry | None
    problem: str | None


@t.overload
def outcomes(
    requested: Mapping[str, Sequence[str]], answers: Mapping[str, Answer], kind: type[Entry]
) -> list[Outcome[Entry]]: ...


@t.overload
def outcomes(
    requested: Mapping[str, Sequence[str]], answers: Mapping[str, Answer]
) -> list[Outcome[Answer]]: ...


def outcomes(
    requested: Mapping[str, Sequence[str]],
    answers: Mapping[str, Answer],
    kind: object = None,  # noqa: ARG001
) -> list[Outcome[t.Any]]:
    """Exactly one outcome for each name requested from each hypervisor, in order.

    ``answers`` are results by hypervisor; their ``vms`` have one entry for each name, with ``name``
    and, where it may fail, ``failed`` and ``msg``, or ``error``. ``kind`` is the type of these
    entries, if the answers were checked for one.
    """
    per_name = []
    for host, names in requested.items():
        answer = answers.get(host) or {}
        entries = answer.get("vms")
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            entries = []
        by_name = {
            entry["name"]: entry
            for entry in reversed(entries)
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
        }
        per_name += [_of(host, name, by_name.get(name), answer) for name in dict.fromkeys(names)]
    return per_name


def _of(host: str, name: str, entry: Answer | None, answer: Answer) -> Outcome[Answer]:
    if entry is None:
        failure = Failure(host, f"{name} on {host}: {error_message(answer)}")
        return Outcome(host, name, None, failure)
    problem, why = None, entry.get("error")
    if why or entry.get("failed"):
        why = why or entry.get("msg") or reason({**answer, "msg": None})
        problem = Failure(host, f"{name} on {host}: {clean(str(why).strip())}")
    return Outcome(host, name, entry, problem)


def failed_entry(outcome: Outcome[Answer], answer: Answer) -> dict[str, object]:
    """An entry for a name that its hypervisor did not report, in the form of the others."""
    return {"name": outcome.name, "changed": False, "failed": True, "msg": error_message(answer)}


def without_answer(
    hosts: t.Iterable[str], answers: Mapping[str, Answer], key: str
) -> dict[str, str]:
    """For each of ``hosts`` without ``key`` in its result, why there is none."""
    return {
        host: reason(answers.get(host) or {})
        for host in hosts
        if (answers.get(host) or {}).get(key) is None
    }


def error_message(answer: Answer) -> str:
    """Why there is no result, and what to do."""
    remedy = _NOT_ASKED
    if _asked(answer):
        refused = answer.get("error") in _REFUSALS or _OPTIONS.match(str(answer.get("msg") or ""))
        remedy = _MEND if refused else _UNKNOWN
    return f"{reason(answer)}; {remedy}"


def is_cut(answer: Answer) -> bool:
    """Whether a module ended without a result: it was killed, or raised."""
    return "module_stderr" in answer or "module_stdout" in answer


def was_killed(answer: Answer) -> bool:
    """Whether a module was killed, as far as its result tells: it says nothing of an error."""
    return is_cut(answer) and (_signal(answer.get("rc")) is not None or not _last_words(answer))


def _asked(answer: Answer) -> bool:
    return bool(answer) and not answer.get("skipped")


def reason(answer: Answer) -> str:
    """Why there is no result, in Ansible's words, on one line of limited length."""
    if not _asked(answer):
        return "it was skipped because an earlier step failed"
    message = str(answer.get("msg") or "")
    status = answer.get("rc")
    if is_cut(answer) or message.startswith(_NO_RESULT):
        return _line(f"its module returned no result{_ended(status)}{_last_words(answer)}")
    if not message:
        message = (_text(answer, "exception").strip().splitlines() or [""])[-1]
    message = unreached(message)
    return _line(message) if message else "its answer does not mention it"


def unreached(message: str, host: str = "it") -> str:
    """Why ``host``, a hypervisor, could not be reached, without what Ansible says of each; another
    message as it is."""
    silent = _NOTHING_CAME.match(message)
    if silent is not None:
        return (
            f"{host} was cut off; nothing came from it within {silent['seconds']} s (if it answers"
            " to ssh, its sudo does not)"
        )
    said = _UNREACHED.match(message)
    if said is None:
        return message
    why = message[said.end() :].strip().replace(_BROKEN, "its connection broke off")
    port = said["port"]
    if not why and "could not be sent" in said[0]:
        return f"{host} was cut off; its connection ended while its module was sent"
    if not why or port is None:
        return why or message
    return f"{why[0].lower()}{why[1:]}" + ("" if port == _PORT else f" (port {port})")


def by_host(failures: Sequence[str], hosts: Sequence[str]) -> dict[str, list[str]]:
    """The messages by host. Those of no host of ``hosts`` are the first one's, which is there."""
    sorted_failures: dict[str, list[str]] = {}
    for failure in failures:
        host = failure.host if isinstance(failure, Failure) else ""
        messages = sorted_failures.setdefault(host if host in hosts else hosts[0], [])
        if failure not in messages:
            messages.append("".join(failure))
    return sorted_failures


def _ended(status: object) -> str:
    if not isinstance(status, int) or isinstance(status, bool) or status == 0:
        return ""
    number = _signal(status)
    if number is not None:
        return f": it was killed ({_SIGNALS.get(number, f'signal {number}')})"
    return f", exit status {status}"


def _signal(status: object) -> int | None:
    """The number of the signal that ended a program with this exit status, if one did."""
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    number = -status if status < 0 else status - _BY_SIGNAL
    return number if 0 < number <= _LAST_SIGNAL else None


def _last_words(answer: Answer) -> str:
    """The last line that the module wrote; in a traceback, that is the error."""
    for key in ("module_stderr", "exception", "module_stdout"):
        lines = [line.strip() for line in _text(answer, key).splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(_NO_NEWS)]
        if lines:
            return f": {lines[-1]}"
    return ""


def _text(answer: Answer, key: str) -> str:
    """The text; since 2.19 Ansible may have an object there, whose content is in ``msg`` too."""
    value = answer.get(key)
    return value if isinstance(value, str) else ""


def _line(text: str) -> str:
    text = clean(" ".join(text.split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
