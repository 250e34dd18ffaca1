# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a seed restarts the guest, or shuts it down, before its first boot has ended.

Judged are the commands that are run and the keys of cloud-init that restart, not words: a comment,
a file's content or a text that is printed may say "reboot". What a script of the guest does is not
known.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import typing as t
from collections.abc import Mapping

from ..base.json_values import as_list

if t.TYPE_CHECKING:
    from .types import Seed

_RESTARTERS = ("reboot", "poweroff", "halt", "kexec")
_VERBS = (*_RESTARTERS, "soft-reboot", "isolate", "switch-root")
_TARGETS = ("reboot.target", "poweroff.target", "halt.target", "kexec.target")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
# What runs the command that follows
_RESERVED = ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "time")
_WRAPPERS = re.compile(
    "sudo|doas|exec|nohup|env|command|setsid|nice|ionice|timeout|systemd-run|busybox|eval|chroot|flock"
)
_ASKING = re.compile("systemctl|loginctl")  # a service to restart the machine
_WITH_A_NAME = ("-u", "-g", "chroot", "flock")  # of a user, a group, a folder or a file
_SYSRQ = "/proc/sysrq-trigger"
_SEPARATORS = ";&|()\n`"
_HERE = re.compile(r"^([^\n]*)<<-?[ \t]*(['\"]?)(\w+)\2([^\n]*)\n.*?^\s*\3[ \t]*$", re.M | re.S)
_FED = re.compile(rf"\b(?:{'|'.join((*_SHELLS, 'at', 'batch'))})\b")
_ASSIGNMENT = re.compile(r"\w+\+?=")
# An option, or a number that belongs to it: -n 10, 5m, --on-active=3
_OPTION = re.compile(r"-.*|\+?\d+[a-z]*")
_WORD = re.compile(r"\b(?:reboot|shutdown|poweroff|halt|kexec)\b")
_KEYS = ("package_reboot_if_required", "apt_reboot_if_required")
_MOST_NESTED = 5  # sh -c "sh -c ..."


def restarts(seed: Seed) -> bool:
    """Whether its commands or its user data end the boot before its end can be reported."""
    data = json.loads(seed.user_data) if seed.user_data else {}
    commands: list[object] = list(seed.commands)
    if isinstance(data, Mapping):
        power = data.get("power_state")
        if isinstance(power, Mapping) and power.get("condition", True) not in (False, "false"):
            return True
        if any(data.get(key) is True for key in _KEYS):
            return True
        for key in ("bootcmd", "runcmd"):
            commands += as_list(data.get(key))
    return any(map(_command, commands))


def _command(command: object) -> bool:
    if isinstance(command, str):
        return _script(command, 0)
    words = [str(word) for word in command] if isinstance(command, (list, tuple)) else []
    return _statement(words, 0)


def _script(text: str, depth: int) -> bool:
    """Whether a statement of a shell script restarts."""
    if _SYSRQ in text:
        return True
    text = _HERE.sub(_without_content, text.replace("\\\n", " "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    comment = False
    try:
        for token in lexer:
            if set(token) <= set(_SEPARATORS):
                if not comment and _statement(words, depth):
                    return True
                comment = comment and "\n" not in token
                words = []
            elif token.startswith("#"):
                if not comment and _statement(words, depth):
                    return True
                comment, words = True, []
            elif not comment:
                words.append(token)
    except ValueError:  # a quotation without an end
        return _WORD.search(text) is not None
    return _statement(words, depth)


def _without_content(here: re.Match[str]) -> str:
    """The line of a here-document, with its content only if a shell reads it."""
    return here[0] if _FED.search(here[1] + here[4]) else here[1] + here[4]


def _statement(words: t.Sequence[str], depth: int) -> bool:
    rest = list(words)
    while rest:
        name = posixpath.basename(rest[0])
        if rest[0] in _RESERVED or _ASSIGNMENT.match(rest[0]):
            del rest[0]
        elif _WRAPPERS.fullmatch(name):
            del rest[: 2 if name in _WITH_A_NAME else 1]
            while rest and (_OPTION.fullmatch(rest[0]) or _ASSIGNMENT.match(rest[0])):
                del rest[: 2 if rest[0] in _WITH_A_NAME else 1]
            if name == "eval" and rest and depth < _MOST_NESTED:
                return _script(" ".join(rest), depth + 1)
        else:
            return _program(name, rest[1:], depth)
    return False


def _program(name: str, arguments: t.Sequence[str], depth: int) -> bool:
    if name in _RESTARTERS:
        return True
    if name == "shutdown":
        return "-c" not in arguments and "-k" not in arguments
    if name in ("init", "telinit"):
        return not {"0", "6"}.isdisjoint(arguments)
    if _ASKING.fullmatch(name):
        return not {*_VERBS, *_TARGETS}.isdisjoint(arguments)
    if name in _SHELLS and depth < _MOST_NESTED:
        for number, argument in enumerate(arguments[:-1]):
            if re.fullmatch(r"-\w*c\w*", argument):
                return _script(arguments[number + 1], depth + 1)
    return False
