# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the less common options of a seed.

No message shows values that may be secret: password hashes, file content, commands, user-data.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
from collections.abc import Mapping

from ..._errors import Problem
from ..base.options import Reader, show, to_boolean
from ..base.settings import names
from . import settings
from .public_keys import public_keys
from .types import ALL_SUDO, ReadYaml, Seed, SeedFile, User

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HASH = re.compile(r"\$(?:5|6|7|y|gy|2[aby])\$[./A-Za-z0-9$=,-]{8,250}")
_HASH_RULE = (
    "this is not a password hash as in shadow(5), such as $6$...; make one with openssl passwd -6"
)
_SUDO = r"[^\s#:][^:\0]{0,255}"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")
_BAD_TEXT = re.compile("[\0\ud800-\udfff]")
_MAX_FILE = 1024 * 1024
_MAX_USER_DATA = 1024 * 1024
MAX_EXPANDED = 4 * 1024 * 1024
# Keys of user-data that the collection itself sets, and what to use instead
_OURS = {
    "ssh_keys": "the host key is made for the VM, so that it is known before it boots",
    "ssh_deletekeys": "the host key is made for the VM, so that it is known before it boots",
    "ssh_genkeytypes": "the host key is made for the VM, so that it is known before it boots",
    "hostname": "set hostname in the seed",
    "fqdn": "set fqdn in the seed",
    "preserve_hostname": "set hostname in the seed",
    "prefer_fqdn_over_hostname": "set hostname in the seed",
    "manual_cache_clean": "it preserves the VM's identity once its medium is gone",
    "network": "cloud-init takes no network from user-data; set network in the seed",
}


def read(reader: Reader, seed: Seed, read_yaml: ReadYaml | None) -> Seed:
    """``seed`` with the values of these options."""
    users = _users(reader, seed)
    return dataclasses.replace(
        seed,
        fqdn=_fqdn(reader, seed),
        sudo=_sudo(reader, True),
        password_hash=_password_hash(reader),
        users=users,
        timezone=settings.TIMEZONE.read(reader),
        locale=settings.LOCALE.read(reader),
        ca_certificates=_certificates(reader),
        files=_files(reader),
        packages=settings.PACKAGES.read(reader),
        commands=_commands(reader),
        grow_root=settings.GROW_ROOT.read(reader),
        user_data=_user_data(reader, read_yaml),
    )


def _fqdn(reader: Reader, seed: Seed) -> str | None:
    fqdn = reader.value("fqdn")
    if fqdn is None:
        return None
    if not isinstance(fqdn, str) or not fqdn:
        reader.problem("fqdn", f"{show(fqdn)} is not a name; write text such as web1.example.org")
        return None
    if len(fqdn) > 253:
        reader.problem("fqdn", f"{show(fqdn)} has {len(fqdn)} characters; at most 253 are allowed")
        return None
    for label in fqdn.split("."):
        if re.fullmatch(_LABEL, label) is None:
            reader.problem(
                "fqdn",
                f"{show(fqdn)} has a part that is not allowed ({show(label)}, {len(label)}"
                " characters); each part has 1 to 63 letters, digits or '-', and neither starts"
                " nor ends with '-': rename it",
            )
            return None
    first, dot, _domain = fqdn.partition(".")
    if not dot:
        reader.problem("fqdn", f"{show(fqdn)} has no domain; write web1.example.org, or hostname")
    if seed.hostname is not None and seed.hostname not in (first, fqdn):
        reader.problem(
            "fqdn",
            f"{show(fqdn)} does not begin with hostname ({show(seed.hostname)}); make them agree,"
            " or leave hostname out",
        )
    return fqdn


def _sudo(reader: Reader, default: bool) -> str | None:
    """The sudo rule: true allows everything without a password, false nothing, text is the rule."""
    value = reader.value("sudo")
    if value is None:
        return ALL_SUDO if default else None
    try:
        return ALL_SUDO if to_boolean(value) else None
    except ValueError:
        return reader.text("sudo", None, _SUDO, f"write true, false or a rule such as {ALL_SUDO}")


def _password_hash(reader: Reader) -> str | None:
    value = reader.value("password_hash")
    if value is None:
        return None
    if not isinstance(value, str) or _HASH.fullmatch(value) is None:
        reader.problem("password_hash", _HASH_RULE)
        return None
    return str(value)


def _entries(reader: Reader, key: str, example: str) -> list[tuple[str, Mapping[str, object]]]:
    """Path and mapping of each entry of the list under ``key``."""
    value = reader.structure(key, secret=True)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        reader.problem(key, f"this is not a list; write {example}")
        return []
    entries: list[tuple[str, Mapping[str, object]]] = []
    for index, entry in enumerate(value):
        path = f"{reader.at(key)}[{index}]"
        if isinstance(entry, Mapping):
            entries.append((path, entry))
        else:
            reader.problems.append(Problem(path, f"this is not a mapping; write {example}"))
    return entries


def _users(reader: Reader, seed: Seed) -> tuple[User, ...]:
    users: list[User] = []
    example = "[{name: alice, ssh_public_keys: [...]}]"
    for path, entry in _entries(reader, "users", example):
        inner = Reader(entry, path, reader.problems)
        user = User(
            name=settings.GuestUserSettings.name.read(inner),
            ssh_public_keys=public_keys(inner, "ssh_public_keys", (), required=False),
            password_hash=_password_hash(inner),
            sudo=_sudo(inner, False),
            groups=settings.GuestUserSettings.groups.read(inner),
            shell=settings.GuestUserSettings.shell.read(inner),
        )
        inner.finish(names(settings.USERS.settings))
        if not inner.given("name"):
            inner.problem("name", "a user needs a name; write name: alice")
        elif user.name and user.name in (seed.user, *(other.name for other in users)):
            inner.problem("name", f"{show(user.name)} is given twice; give each user once")
        users.append(user)
    return tuple(users)


def _certificates(reader: Reader) -> tuple[str, ...]:
    value = reader.structure("ca_certificates", secret=True)
    remedy = "give the text of PEM certificates, -----BEGIN CERTIFICATE-----..."
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)):
        reader.problem("ca_certificates", f"this is not a list; {remedy}")
        return ()
    certificates: list[str] = []
    for index, text in enumerate(texts):
        path = f"{reader.at('ca_certificates')}[{index}]"
        message = None
        if not isinstance(text, str):
            message = f"this is not text; {remedy}"
        elif "PRIVATE KEY" in text:
            message = f"this contains a PRIVATE key, which must not be in a variable; {remedy}"
        else:
            blocks = list(_PEM.finditer(text))
            if not blocks or len(blocks) != text.count("-----BEGIN"):
                message = f"this is not a PEM certificate, or is truncated; {remedy}"
            elif not all(_is_der(block.group(1)) for block in blocks):
                message = f"a certificate in this is damaged; {remedy}"
            else:
                certificates += [block.group(0) + "\n" for block in blocks]
        if message:
            reader.problems.append(Problem(path, message))
    return tuple(dict.fromkeys(certificates))


def _is_der(text: str) -> bool:
    """Whether base64 text is exactly one complete DER sequence (X.690)."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    if len(data) < 4 or data[0] != 0x30:
        return False
    if data[1] < 0x80:
        return len(data) == 2 + data[1]
    size = data[1] & 0x7F
    return 1 <= size <= 4 and len(data) == 2 + size + int.from_bytes(data[2 : 2 + size], "big")


def _files(reader: Reader) -> tuple[SeedFile, ...]:
    files: list[SeedFile] = []
    example = '[{path: /etc/motd, content: text, mode: "0644"}]'
    for path, entry in _entries(reader, "files", example):
        inner = Reader(entry, path, reader.problems)
        target = settings.GuestFileSettings.path.read(inner)
        encoding = settings.GuestFileSettings.encoding.read(inner)
        file = SeedFile(
            path=target or "",
            content=_content(inner, encoding),
            mode=_mode(inner),
            owner=settings.GuestFileSettings.owner.read(inner),
        )
        inner.finish(names(settings.FILES.settings))
        if not inner.given("path"):
            inner.problem("path", "a file needs a path; write path: /etc/motd")
        elif target and target in [file.path for file in files]:
            inner.problem("path", f"{show(target)} is given twice; give each file once")
        files.append(file)
    return tuple(files)


def _content(reader: Reader, encoding: str) -> str:
    value = reader.value("content")
    if not isinstance(value, str):
        message = "this is not text" if value is not None else "a file needs content"
        reader.problem("content", f"{message}; write text, or base64 with encoding: base64")
        return ""
    try:
        if encoding == "base64":
            data = base64.b64decode("".join(value.split()), validate=True)
        else:
            data = value.encode("utf-8")
    except (binascii.Error, ValueError):
        kind = "base64" if encoding == "base64" else "text in UTF-8"
        reader.problem("content", f"this is not {kind}; write text, or base64 with encoding")
        return ""
    if len(data) > _MAX_FILE:
        reader.problem(
            "content",
            f"{len(data)} bytes are more than a seed allows ({_MAX_FILE}); fetch it with a command,"
            " or put it into the image",
        )
        return ""
    return base64.b64encode(data).decode("ascii")


def _mode(reader: Reader) -> str:
    value = reader.value("mode")
    if value is None:
        return settings.GuestFileSettings.mode.default
    # a number is ambiguous: 0644 in YAML is 420
    if not isinstance(value, str) or re.fullmatch(r"0?[0-7]{3}|[0-7]{4}", value) is None:
        reader.problem(
            "mode", f'{show(value)} is not allowed: write octal in quotes, for example "0644"'
        )
        return settings.GuestFileSettings.mode.default
    return value.rjust(4, "0")


def _commands(reader: Reader) -> tuple[str | tuple[str, ...], ...]:
    value = reader.structure("commands", secret=True)
    example = "[systemctl enable --now x.service, [touch, /a file]]"
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        reader.problem("commands", f"this is not a list; write {example}")
        return ()
    commands: list[str | tuple[str, ...]] = []
    for index, entry in enumerate(value):
        words = entry if isinstance(entry, (list, tuple)) else [entry]
        good = all(isinstance(word, str) and word.isprintable() for word in words)
        if isinstance(entry, str):
            good = _BAD_TEXT.search(entry) is None and bool(entry.strip())
        if not good or not words or not words[0]:
            reader.problems.append(
                Problem(
                    f"{reader.at('commands')}[{index}]",
                    "this is neither a shell command nor a list of a program and its"
                    f" arguments; write {example}",
                )
            )
        else:
            commands.append(str(entry) if isinstance(entry, str) else tuple(str(w) for w in words))
    return tuple(commands)


def _user_data(reader: Reader, read_yaml: ReadYaml | None) -> str | None:
    value = reader.value("user_data")
    if value is None:
        return None
    try:
        text = user_data_json(value, read_yaml)
    except ValueError as error:
        reader.problem("user_data", str(error))
        return None
    for key in json.loads(text):
        if key in _OURS:
            reader.problems.append(
                Problem(f"{reader.at('user_data')}.{key}", f"this cannot be set here: {_OURS[key]}")
            )
    return text


def user_data_json(value: object, read_yaml: ReadYaml | None) -> str:
    """User-data (a mapping, or YAML text) as JSON; ValueError with the problem, without content."""
    example = "write a mapping of cloud-config, for example {swap: {size: 0}}"
    if isinstance(value, str):
        if len(value) > _MAX_USER_DATA:
            raise ValueError(f"{len(value)} characters are more than {_MAX_USER_DATA}; {example}")
        first = value.lstrip().split("\n", 1)[0].strip()
        if first.startswith(("#!", "#include", "#part", "#cloud-boothook", "## template:")) or (
            first.lower().startswith(("content-type:", "mime-version:"))
        ):
            raise ValueError(
                "this is user-data of a kind other than cloud-config; put scripts into files and"
                f" commands, and {example}"
            )
        if read_yaml is not None:
            value = read_yaml(value)
        else:
            try:
                value = json.loads(value.partition("\n")[2] if first == "#cloud-config" else value)
            except ValueError:
                raise ValueError(f"this is not JSON; {example}") from None
    if not isinstance(value, Mapping):
        raise ValueError(f"this is not a mapping; {example}")
    if not all(isinstance(key, str) for key in value):
        raise ValueError(f"a key of this is not text; {example}")
    try:
        require_expandable(value)
    except RecursionError:
        raise ValueError(
            "this contains itself, or is nested too deeply; write it without that"
        ) from None
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError):
        raise ValueError(
            "this has values that are not text, numbers, true, false, lists or mappings; put them"
            " in quotes"
        ) from None
    return text


def require_expandable(value: object) -> None:
    """Raise ValueError if it is too large with every alias expanded, as JSON has it;
    RecursionError if it contains itself or is nested too deeply."""
    if _expanded_size(value, MAX_EXPANDED, ()) > MAX_EXPANDED:
        raise ValueError(
            f"with its aliases expanded this has more than {MAX_EXPANDED} characters; shorten it"
        )


def _expanded_size(value: object, most: int, above: tuple[int, ...]) -> int:
    """The approximate number of characters, counted until it exceeds ``most``.

    An alias is measured wherever it is used: templating may have made copies of it. ``above`` are
    the containers that this one is in.
    """
    if isinstance(value, Mapping):
        parts: list[object] = [*value, *value.values()]
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        return len(value) + 2 if isinstance(value, str) else 8
    if id(value) in above:
        raise RecursionError
    size = 2
    for part in parts:
        if size > most:
            break
        size += _expanded_size(part, most - size, (*above, id(value)))
    return size
