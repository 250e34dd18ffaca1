# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that hypervisors only append to, as the guide sets it up: what was saved stays.

``ssh`` is a script that does what sshd does with a line of authorized_keys: it runs the command
that the line forces, whatever was requested.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
    keep,
    places,
    read_repositories,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import BackupPlace
from ansible_collections.fleet.virt.plugins.plugin_utils.backup._prune import Pruner
from ansible_collections.fleet.virt.tests.unit.backup import _made
from ansible_collections.fleet.virt.tests.unit.backup._made import UUID, at

GUIDE = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "keeping_backups.rst"
YESTERDAY, TODAY = at(27), at(28)
_SSH = """\
#!/bin/sh
key=
while :; do
    case $1 in
        -i) key=${{2##*/}}; shift 2 ;;
        -o | -p) shift 2 ;;
        *) shift; break ;;
    esac
done
[ "$key" = hypervisor ] || exec sh -c "$*"
SSH_ORIGINAL_COMMAND="$*" exec {forced}
"""


@dataclass(frozen=True)
class Server:
    """A server, a hypervisor that backs up there, and the controller."""

    folder: Path
    place: BackupPlace
    hypervisor: Access
    controller: Access

    @property
    def repository(self) -> Path:
        return self.folder / "srv" / UUID

    @property
    def address(self) -> str:
        return self.place.repository(UUID)

    def listed(self, access: Access) -> list[str]:
        return _made.listed(self.address, access)

    def pruner(self, base: str = "borg-of-controller") -> Pruner:
        access = Access(_made.PASSPHRASE, str(self.folder / base), self.controller.key)
        policy = keep.policy({"daily": 7})
        return Pruner(access, policy, self.folder / "known.json", frozenset(), check=False)


def _forced() -> str:
    """The command that the guide's line for a hypervisor forces."""
    found = re.search(r'^ +command="([^"]+)",restrict ', GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _undoing() -> str:
    """What the guide says to type on the server."""
    (block,) = re.findall(r"code-block:: sh\n\n((?:    .*\n|\n)+)", GUIDE.read_text())
    return re.sub(r"^    ", "", str(block), flags=re.MULTILINE)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    srv = tmp_path / "srv"
    srv.mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    forced = _forced()
    assert "/srv/backup" in forced
    ssh.write_text(_SSH.format(forced=forced.replace("/srv/backup", str(srv))))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")

    def access(name: str) -> Access:
        return Access(_made.PASSPHRASE, str(tmp_path / f"borg-of-{name}"), str(tmp_path / name))

    place = places.parse(f"ssh://backup@safe.example:2222{srv}")
    server = Server(tmp_path, place, access("hypervisor"), access("controller"))
    words = ["init", "--encryption", "repokey-blake2", server.address]
    effects_borg.run(server.hypervisor, words)
    for moment in (YESTERDAY, TODAY):
        comment = archives.comment(_made.of(moment))
        _made.save(server.address, server.hypervisor, moment, comment)
    return server


def _attack(server: Server) -> None:
    """All that root on a hypervisor can do with borg and its key."""
    access = server.hypervisor
    effects_borg.run(access, ["delete", server.address, YESTERDAY, TODAY])
    with pytest.raises(effects_borg.BorgError):
        effects_borg.run(access, ["delete", "--force", server.address])
    effects_borg.run(access, ["compact", server.address])
    comment = archives.comment(_made.of(at(29)))
    _made.save(server.address, access, at(29), comment)
    effects_borg.run(access, ["compact", server.address])
    for command in ("rm -rf /", f"rm -rf {server.repository}", "borg serve", "sh"):
        words = shlex.split(effects_borg.environment(access)["BORG_RSH"])
        argv = [*words, "-p", "2222", "backup@safe.example", command]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def test_yesterday_is_restored_after_hypervisor_deleted_all(server: Server) -> None:
    vms, problems = server.pruner().prune([server.place], [])
    assert (problems, [vm["failed"] for vm in vms]) == ([], [False])
    before = (server.repository / "transactions").read_text().split("\n")
    last = re.findall(r"^transaction (\d+),", "\n".join(before), re.MULTILINE)[-1]

    _attack(server)
    assert server.listed(server.hypervisor) == [at(29)]

    vms, problems = server.pruner().prune([server.place], [])
    refused = [line for vm in vms for line in vm["refused"]]
    assert [line.split()[0] for line in refused] == [
        f"{UUID}::{name}" for name in (YESTERDAY, TODAY)
    ]
    assert not problems

    script = _undoing().replace("/srv/backup/UUID", str(server.repository))
    script = script.replace("../UUID.attacked", f"../{UUID}.attacked").replace("> 9", f"> {last}")
    subprocess.run(["sh", "-eu"], input=script, text=True, check=True, capture_output=True)
    with pytest.raises(effects_borg.RolledBack, match=f"remove .* {server.hypervisor.base}"):
        server.listed(server.hypervisor)
    shutil.rmtree(server.hypervisor.base)
    assert server.listed(server.hypervisor) == [YESTERDAY, TODAY]
    assert server.listed(server.controller) == [YESTERDAY, TODAY]
    words = ["extract", "--stdout", f"{server.address}::{YESTERDAY}", "manifest.json"]
    assert effects_borg.run(server.controller, words).out == YESTERDAY
    assert read_repositories.uuids(server.place, server.controller) == [UUID]


def test_key_of_hypervisor_reaches_nothing_outside_of_the_place(server: Server) -> None:
    outside = server.folder / "outside"
    shutil.copytree(server.repository, outside)
    address = f"ssh://backup@safe.example:2222{outside}"
    with pytest.raises(effects_borg.Disconnected):
        effects_borg.run(server.hypervisor, ["list", address])
    with pytest.raises(effects_borg.Disconnected, match="needs a shell"):
        read_repositories.uuids(server.place, server.hypervisor)


def test_server_that_does_not_answer_is_not_reported_to_have_a_shell(tmp_path: Path) -> None:
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    place = places.parse("ssh://nobody@127.0.0.1:1/srv/backup")
    with pytest.raises(effects_borg.Disconnected, match="known_hosts") as refused:
        read_repositories.uuids(place, access)
    assert "shell" not in str(refused.value)


def test_controller_prunes_and_frees_space_with_its_own_key(server: Server) -> None:
    pruner = server.pruner()
    kept = Pruner(pruner.access, keep.policy({"last": 1}), pruner.file, frozenset(), check=False)
    (vm,), problems = kept.prune([server.place], [])
    assert (problems, vm["deleted"], vm["failed"]) == ([], [], False), "it only remembers"
    (vm,), problems = kept.prune([server.place], [])
    assert (problems, vm["deleted"], vm["failed"]) == ([], [YESTERDAY], False)
    assert server.listed(server.hypervisor) == [TODAY]
    (vm,), problems = kept.prune([server.place], [])
    assert (problems, vm["changed"]) == ([], False)
