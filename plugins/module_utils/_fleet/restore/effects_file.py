# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a file of a guest from an archive, by libguestfs.

No kernel but that of libguestfs' own VM mounts what is a guest's. borg shows the disks in a name
space for mounts and processes of its own, which ends with the process that asked for it, together
with every mount, file and process in it: nothing is left, however it ends.
"""

from __future__ import annotations

import base64
import tempfile
import uuid as uuids

from ..._errors import PlanRefused, visible
from ..._units import MIB
from ..backup import archives, effects_borg
from ..backup.effects_borg import Access
from ..base import effects_programs as programs
from ..base import names
from . import read_archives
from .effects_archive import Archive
from .facts import FileLook
from .options import RestoreOptions, SavedVm, skipped
from .options_file import RestoreFileOptions, RestoreFileWork

_BORG_FOLDER = "/var/cache/fleet-virt/borg"
_SECONDS = 1800.0  # without KVM, libguestfs' VM takes minutes
_WORDS = 800
_PROGRAMS = {
    "guestfish": "libguestfs-tools (Debian), guestfs-tools (others)",
    "borg": "borgbackup",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
# What borg shows may be anything, so only plain files in a plain folder are disks; and their format
# is given, since a guest can write any header to its disk.
_SCRIPT = r"""
set -eu
at=/mnt borg=$1 archive=$2 path=$3 most=$4; shift 4
mount -t tmpfs -o mode=0700,size=1g none $at
mkdir $at/archive $at/tmp $at/out
mount -t tmpfs -o mode=0700,size=$most none $at/out
"$borg" --log-json --bypass-lock mount --foreground -o ro "$archive" $at/archive &
until mountpoint -q $at/archive; do
  kill -0 $! 2>/dev/null || { wait $!; exit 90; }
  sleep 0.1
done
[ ! -L $at/archive/disks ] || exit 91
for disk; do
  file=$at/archive/disks/$disk.raw
  [ -f $file ] && [ ! -L $file ] || exit 91
  set -- "$@" --add $file; shift
done
export LIBGUESTFS_BACKEND=direct LIBGUESTFS_TMPDIR=$at/tmp HOME=$at/tmp
guestfish --ro --format=raw "$@" --inspector \
  is-file "$path" followsymlinks:true : filesize "$path" : download "$path" $at/out/file \
  < /dev/null > $at/said || { cat $at/said >&2; exit 92; }
cat $at/said $at/out/file
"""
_WHY = {
    91: "a disk in the archive is no plain file",
    92: "libguestfs could not read it",
}


def missing() -> list[str]:
    """The programs that are not installed here, each with its package."""
    return [
        f"{program} is not installed; install the package {package}"
        for program, package in _PROGRAMS.items()
        if programs.find(program) is None
    ]


def look() -> FileLook:
    """Whether this hypervisor can read files of guests."""
    return {"changed": False, "lacks": missing()}


def find(access: Access, options: RestoreFileOptions, run_id: str) -> list[SavedVm]:
    """The VM and its archive; raises PlanRefused."""
    wanted: RestoreOptions = {
        "names": [options["name"]],
        "new_name": None,
        "archive": options["archive"],
        "restore_as": None,
        "without": [],
        "place": options["place"],
        "passphrase": options["passphrase"],
        "ssh_key": options["ssh_key"],
        "pool": "",
        "pool_path": "",
        "base_pool": "",
        "base_path": "",
    }
    return read_archives.find(access, wanted, run_id, whole=False)


def run(options: RestoreFileOptions, work: RestoreFileWork) -> dict[str, object]:
    """The content of the file, for the controller to write; it is in ``content`` and nothing that
    is shown."""
    lacks = missing()
    if lacks:
        raise PlanRefused(f"{'; '.join(lacks)}: files of guests are read by libguestfs")
    access = Access(options["passphrase"], _BORG_FOLDER, options["ssh_key"])
    (vm,) = work.vms or find(access, options, str(uuids.uuid4()))
    content = _read(access, options, vm)
    entry = {
        "name": vm.name,
        "changed": False,
        "archive": vm.source,
        "size": len(content),
        "failed": False,
        "msg": None,
    }
    result = {"changed": False, "vms": [entry], "content": base64.b64encode(content).decode()}
    return result if work.vms else {**result, "warnings": skipped([vm])}


def _read(access: Access, options: RestoreFileOptions, vm: SavedVm) -> bytes:
    disks = [disk.target for disk in archives.read_manifest(vm.manifest).backup.disks]
    archive = Archive(access, options["place"], vm.repository, vm.archive)
    most = options["max_mib"] * MIB
    words = [
        *("unshare", "--mount", "--propagation", "private"),
        *("--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _SCRIPT, "read"),
        *(programs.find("borg") or "borg", archive.where, options["path"], str(most), *disks),
    ]
    with tempfile.TemporaryFile() as output:
        with effects_borg.passphrase_pipe(access.passphrase) as descriptor:
            ended = programs.execute(
                programs.bound(words),
                into=output,
                seconds=_SECONDS,
                environment={
                    **effects_borg.environment(access),
                    "BORG_PASSPHRASE_FD": str(descriptor),
                },
                descriptors=(descriptor,),
            )
        if ended.status:
            raise _failure(ended, access, options, vm)
        output.seek(0)
        return parsed(output.read(most + _WORDS), options["path"])


def _failure(
    ended: programs.Ended, access: Access, options: RestoreFileOptions, vm: SavedVm
) -> Exception:
    why = _WHY.get(ended.status)
    if why is None:
        return effects_borg.failure(ended.error_text, access.base)
    said = visible(" ".join(ended.error_text.split())[-_WORDS:], "")
    disk = names.playbook_command("restore_disk", vm_name=vm.name, virt_disk="vda")
    return PlanRefused(
        f"{options['path']} of {vm.source}: {why}: {said}; it must be a file of at most"
        f" {options['max_mib']} MiB (virt_restore_max_mib) on a system that libguestfs recognises;"
        f" else restore a disk beside the VM: {disk}"
    )


def parsed(output: bytes, path: str) -> bytes:
    """The content, after what guestfish said of the file; raises PlanRefused."""
    plain, size, content = [*output.split(b"\n", 2), b"", b""][:3]
    if plain != b"true":
        raise PlanRefused(f"{path} is no plain file of the guest")
    if not size.isdigit() or int(size) != len(content):
        raise PlanRefused(f"{path} was not read completely; try again")
    return content
