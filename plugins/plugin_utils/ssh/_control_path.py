# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ssh's control sockets (ControlPath, ``-S``): a separate one for each machine.

ssh finds a persistent connection by the path of its socket, which Ansible derives from address,
port and user. Two guests at one address would share it, or a guest and a hypervisor, and the host
key of the second would not be checked. So a guest's path is derived from the guest's identity.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import typing as t

# -S and its path, perhaps behind flags that take no argument
_SOCKET = re.compile(r"(-[46AaCfGgKkMNnqsTtVvXxYy]*)S(.*)", re.DOTALL)
_OPTION = re.compile(r"\s*([A-Za-z]*)[\s=]*(.*)", re.DOTALL)
_MARK_LENGTH = 13  # characters of 5 bits: enough against collisions made on purpose
# A socket's path may have at least 103 bytes (macOS has the fewest), and ssh appends 17 while it
# creates one
_LONGEST_PATH = 103 - 17
_LONGEST_USER = 16
# Where Ansible keeps connections unless control_path says otherwise
_ANSIBLES = "%(directory)s/any"


def mark(*facts: object) -> str:
    """A file name that stands for these facts."""
    digest = hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest)[:_MARK_LENGTH].decode("ascii").lower()


def without_socket(words: t.Iterable[str]) -> tuple[list[str], list[str]]:
    """Words without ``-S PATH``, which overrides any option before it; and those paths."""
    kept: list[str] = []
    paths: list[str] = []
    rest = iter(words)
    for word in rest:
        match = _SOCKET.fullmatch(word)
        if word == "-o":
            kept += [word, *_next(rest)]
        elif match is None:
            kept.append(word)
        else:
            paths += [match[2]] if match[2] else _next(rest)
            kept += [match[1]] if match[1] != "-" else []
    return kept, paths


def without_path(words: t.Iterable[str]) -> tuple[list[str], list[str]]:
    """Words without ``-o ControlPath=...``, of which ssh uses the first; and those paths."""
    kept, paths = [], []
    rest = iter(words)
    for word in rest:
        option = [word, *_next(rest)] if word == "-o" else [word]
        text = option[-1] if word == "-o" else word[2:] if word.startswith("-o") else ""
        match = _OPTION.fullmatch(text)
        if match is not None and match[1].lower() == "controlpath":
            paths.append(match[2].strip().strip('"'))
        else:
            kept += option
    return kept, paths


def _next(words: t.Iterator[str]) -> list[str]:
    """The argument of an option, if there is one."""
    return [word for word in [next(words, None)] if word is not None]


def separate_connection(
    name: str, arguments: t.Iterable[str], control_path: str, control_path_dir: str
) -> tuple[list[str], dict[str, object]]:
    """Options for ssh and variables for Ansible with which ``name`` shares no connection.

    ``arguments`` are all that ssh is given, in their order, without ``-S``; ``control_path`` and
    ``control_path_dir`` are Ansible's settings. Control sockets stay in the same folder. There is
    none if only ssh's own configuration files could enable them.
    """
    words = [word for argument in arguments for word in shlex.split(argument)]
    given = [*reversed(without_socket(words)[1]), *without_path(words)[1]][:1]
    if not given and "controlpersist" in " ".join(words).lower():
        own = control_path or _ANSIBLES  # written with % of Python
        folder = os.path.dirname(own)
        if _fits(folder.replace("%(directory)s", control_path_dir), name):
            return [], {"ansible_control_path": os.path.join(folder, f"{name}-%%r-%%p")}
    path = "none"
    for socket in given:
        folder = os.path.dirname(socket)
        if socket.lower() != "none" and '"' not in socket and _fits(folder, name):
            path = os.path.join(folder, f"{name}-%r-%p")
    return ["-o", f'ControlPath="{path}"'], {}


def _fits(folder: str, name: str) -> bool:
    """Whether a socket's path there is short enough, as far as it is known.

    ssh inserts user and port, which depend on the play.
    """
    longest = os.path.join(os.path.expanduser(folder), f"{name}--65535")
    return len(os.fsencode(longest)) + _LONGEST_USER <= _LONGEST_PATH
