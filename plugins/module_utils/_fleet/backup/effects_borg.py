# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calling borg, on the controller and on hypervisors: limits, named errors, no secret left behind.

The passphrase goes through a pipe (``BORG_PASSPHRASE_FD``) and is in no command line, environment
or file. Nothing of the session's own borg is used: no ``BORG_*`` variable, and a folder for its
caches that only this user can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import typing as t
from pathlib import Path
from urllib.parse import urlsplit

from ..._errors import DependencyMissing, FleetVirtError, visible
from ..._records import dataclass, field
from ..base import effects_programs as programs
from ..base.json_values import as_mapping, as_text

SECONDS = 120.0
_LOCK_WAIT = 30
_WORDS = 1000  # characters of borg's own words in an error
_MOST_PASSPHRASE = 4096  # bytes; a pipe takes them at once, whether or not borg reads them
_RSH = (
    "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
)


class BorgError(FleetVirtError):
    """borg failed, for a reason that has no class of its own."""


class WrongPassphrase(BorgError):
    """The passphrase does not open the repository."""


class NoRepository(BorgError):
    """There is no repository at that place."""


class NoArchive(BorgError):
    """The repository has no archive of that name."""


class ArchiveExists(BorgError):
    """The repository already has an archive of that name."""


class RepositoryExists(BorgError):
    """There is a repository at that place already."""


class Locked(BorgError):
    """Another process is at work in the repository, or left its lock there."""


class Full(BorgError):
    """The place has no space left, or its quota is used up."""


class Damaged(BorgError):
    """The repository or an archive is damaged, or not the one that was known."""


class RolledBack(Damaged):
    """The repository is older than what this machine saw of it: somebody put it back."""


class Disconnected(BorgError):
    """The server of the place does not answer, or refuses."""


_MISSING = (
    "borg is not installed here; install Debian's package borgbackup, on the controller and on"
    " hypervisors"
)
_STALE_LOCK = re.compile(r"(?:Remote: )?(?:Killed stale lock|Removed stale \w+ roster lock) ")
_BY_ID: dict[str, type[BorgError]] = {
    "PassphraseWrong": WrongPassphrase,
    "NoPassphraseFailure": WrongPassphrase,
    "Repository.DoesNotExist": NoRepository,
    "Repository.ParentPathDoesNotExist": NoRepository,
    "Repository.AlreadyExists": RepositoryExists,
    "Repository.PathAlreadyExists": RepositoryExists,
    "Archive.DoesNotExist": NoArchive,
    "Archive.AlreadyExists": ArchiveExists,
    "LockTimeout": Locked,
    "LockError": Locked,
    "LockErrorT": Locked,
    "LockFailed": Locked,
    "Repository.InsufficientFreeSpaceError": Full,
    "Repository.StorageQuotaExceeded": Full,
    "Repository.InvalidRepository": Damaged,
    "Repository.InvalidRepositoryConfig": Damaged,
    "Repository.CheckNeeded": Damaged,
    "Repository.ObjectNotFound": Damaged,
    "Repository.AtticRepository": Damaged,
    "IntegrityError": Damaged,
    "FileIntegrityError": Damaged,
    "Cache.RepositoryReplay": RolledBack,
    "Cache.EncryptionMethodMismatch": Damaged,
    "Cache.CacheInitAbortedError": Damaged,
    "Manifest.NoManifestError": Damaged,
    "NoManifestError": Damaged,
    "MandatoryFeatureUnsupported": Damaged,
    "KeyfileMismatchError": Damaged,
    "RepoKeyNotFoundError": Damaged,
    "KeyfileInvalidError": Damaged,
    "TAMInvalid": Damaged,
    "TAMRequiredError": Damaged,
    "ConnectionClosed": Disconnected,
    "ConnectionClosedWithHint": Disconnected,
    "PathNotAllowed": Disconnected,
    "InvalidRPCMethod": Disconnected,
}
# What has no identifier, by what it says
_BY_WORDS: tuple[tuple[str, type[BorgError]], ...] = (
    ("No space left on device", Full),
    ("Disk quota exceeded", Full),
    ("IntegrityError", Damaged),
    ("Data integrity error", Damaged),
    ("configparser.", Damaged),
)
_REMEDIES: dict[type[BorgError], str] = {
    WrongPassphrase: "give the passphrase that the repository was made with, in"
    " virt_backup_passphrase",
    NoRepository: "check virt_backup_to, and that the VM was backed up there",
    NoArchive: "ansible-playbook fleet.virt.backups lists what there is",
    Locked: "wait for the other process; if none is at work, 'borg break-lock REPOSITORY' removes"
    " the lock that a lost one left",
    Full: "make space at the place, for example with ansible-playbook fleet.virt.prune_backups",
    Damaged: "'borg check REPOSITORY' says what is damaged; restore the newest backup that can"
    " still be read",
    RolledBack: "if you put it back yourself, remove the folder of borg's caches here, {base}; it"
    " is made again",
    Disconnected: "check the server, its key in known_hosts, and that this user's key may run"
    " 'borg serve' there",
}


@dataclass(frozen=True)
class Access:
    """How this machine uses repositories.

    ``base`` is a folder for borg's caches and locks, made with 0700 if it is missing. ``key`` is
    the file of a private SSH key, by default those of the user's ssh.
    """

    passphrase: str = field(repr=False)
    base: str
    key: str | None = None


def run(
    access: Access,
    words: t.Sequence[str],
    *,
    seconds: float = SECONDS,
    into: t.IO[bytes] | None = None,
    folder: str | None = None,
    lock_wait: int = _LOCK_WAIT,
) -> programs.Ended:
    """Run ``borg`` with these words (``list --json REPOSITORY``) to its end.

    Status 1, borg's warnings, is an end as well: ``stderr`` has them, see :func:`warnings`.
    Raises DependencyMissing, DeadlineExceeded, when it is killed, or a BorgError.
    """
    program = programs.find("borg")
    if program is None:
        raise DependencyMissing(_MISSING)
    argv = [program, "--log-json", "--lock-wait", str(lock_wait), *words]
    with passphrase_pipe(access.passphrase) as descriptor:
        ended = programs.execute(
            argv,
            into=into,
            seconds=seconds,
            folder=folder,
            environment={**environment(access), "BORG_PASSPHRASE_FD": str(descriptor)},
            descriptors=(descriptor,),
        )
    if ended.status not in (0, 1):
        raise failure(ended.stderr.decode("utf-8", "replace"), access.base)
    return ended


def mounting(access: Access, archive: str, folder: str, options: str) -> programs.Running:
    """borg as it shows the files of an archive in ``folder`` (FUSE), until it is ended.

    It takes no lock, so that a backup of the VM is never kept waiting.
    """
    program = programs.find("borg")
    if program is None:
        raise DependencyMissing(_MISSING)
    argv = [program, "--log-json", "--bypass-lock", "mount", "--foreground"]
    with passphrase_pipe(access.passphrase) as descriptor:
        return programs.beside(
            [*argv, "-o", options, archive, folder],
            talks=False,
            errors=True,
            environment={**environment(access), "BORG_PASSPHRASE_FD": str(descriptor)},
            descriptors=(descriptor,),
        )


def has_used(access: Access, repository: str) -> bool:
    """Whether this machine's borg has used the repository before, as its own notes on security say
    (``security/*/location``): a hint, since it may be gone meanwhile."""
    path = urlsplit(repository).path
    noted = Path(access.base, ".config", "borg", "security").glob("*/location")
    return any(file.read_text(errors="replace").strip().endswith(path) for file in noted)


def placeholders_escaped(text: str) -> str:
    """``text`` as an option that borg fills placeholders in, such as ``--comment``."""
    return text.replace("{", "{{").replace("}", "}}")


@contextlib.contextmanager
def passphrase_pipe(passphrase: str) -> t.Iterator[int]:
    """The end of a pipe that the passphrase can be read from, once."""
    content = passphrase.encode("utf-8", "surrogateescape")
    if not content or len(content) > _MOST_PASSPHRASE or b"\n" in content:
        raise WrongPassphrase(
            f"the passphrase is empty, has several lines or more than {_MOST_PASSPHRASE} bytes; set"
            " virt_backup_passphrase"
        )
    reading, writing = os.pipe()
    try:
        try:
            os.write(writing, content)
        finally:
            os.close(writing)
        yield reading
    finally:
        os.close(reading)


def environment(access: Access) -> dict[str, str]:
    """The variables that borg runs with, without the passphrase: the session's, but none of its
    own for borg."""
    os.makedirs(access.base, mode=0o700, exist_ok=True)
    os.chmod(access.base, 0o700)
    ssh = [_RSH, *_cheap_cipher()]
    if access.key is not None:
        ssh += ["-o", "IdentitiesOnly=yes", "-i", shlex.quote(access.key)]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("BORG_")},
        "BORG_BASE_DIR": access.base,
        "BORG_RSH": " ".join(ssh),
        "BORG_EXIT_CODES": "legacy",
        # One place has several paths: that of a hypervisor, and that of the controller
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        # What was put in the place of a repository is not believed
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "no",
        "BORG_DISPLAY_PASSPHRASE": "no",
    }


def make(access: Access, repository: str) -> None:
    """Make an empty repository; raises RepositoryExists.

    Its hashes are those that this processor has instructions for; without, BLAKE2b is cheaper.
    """
    mode = "repokey" if _has_instructions("sha_ni", "sha2") else "repokey-blake2"
    run(access, ["init", "--encryption", mode, repository])


def _cheap_cipher() -> list[str]:
    """The option of ssh that prefers the cipher which this processor has instructions for: with its
    default, sending costs as much as all else of borg. The server need not have it."""
    return ["-o", "Ciphers=^aes128-gcm@openssh.com"] if _has_instructions("aes") else []


def _has_instructions(*names: str) -> bool:
    """Whether Linux lists any of these among what this machine's first processor has: to list
    those of all takes a while where there are many."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii") as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                return not set(names).isdisjoint(line.split())
    return False


def warnings(ended: programs.Ended) -> list[str]:
    """What borg warned of, but for the lock of a process that is gone, which it removed."""
    messages = [text for _id, text in _messages(ended.stderr.decode("utf-8", "replace"))]
    return [text for text in messages if not _STALE_LOCK.match(text)]


def failure(stderr: str, base: str = "BORG_BASE_DIR") -> BorgError:
    """The error that borg's messages (``--log-json``) tell of; ``base`` has its caches."""
    messages = _messages(stderr)
    kind = next((_BY_ID[name] for name, _text in messages if name in _BY_ID), None)
    # After the cause, a traceback has the machine's versions and the command line again
    said = "; ".join(text.partition(" Platform: ")[0] for _name, text in messages)
    if kind is None or kind is Disconnected:
        # A server's own failure arrives as text; that the connection then ended is its consequence
        kind = next((found for words, found in _BY_WORDS if words in said), kind or BorgError)
    remedy = _REMEDIES.get(kind, "").replace("{base}", base)
    return kind(f"borg: {visible(said[-_WORDS:], '')}" + (f"; {remedy}" if remedy else ""))


def _messages(stderr: str) -> list[tuple[str, str]]:
    """Identifier and text of each message, in order; other lines have no identifier."""
    messages = []
    for line in stderr.splitlines():
        try:
            entry = as_mapping(json.loads(line))
        except (ValueError, RecursionError):
            entry = {}
        text = as_text(entry.get("message")) if entry else line
        if text is not None and text.strip() and entry.get("levelname") not in ("INFO", "DEBUG"):
            said = " ".join(_without_frames(text).split())
            messages.append((as_text(entry.get("msgid")) or "", said))
    return messages


def _without_frames(text: str) -> str:
    """The text; of a traceback in it the error, which begins at the margin, and not the frames."""
    head, mark, rest = text.partition("Traceback (most recent call last):")
    lines = [line for line in rest.splitlines() if line and not line[0].isspace()]
    return f"{head} {' '.join(lines)}" if mark and lines else text
