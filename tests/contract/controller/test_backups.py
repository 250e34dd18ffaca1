# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks that use repositories of backups, while no hypervisor answers at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import units
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.units import TimerSettings
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.contract.documentation import Example, examples
from ansible_collections.fleet.virt.tests.unit.backup import _made
from ansible_collections.fleet.virt.tests.unit.backup._made import OTHER, PASSPHRASE, UUID, at

MOMENTS = [at(day) for day in (10, 11, 20, 21, 22)]
PROVEN = at(11)


_PLAY = "ansible-playbook fleet.virt."
# Those of the guide, and what each prints (tests/integration/test_examples.py)
COMMANDS = {
    f"{_PLAY}backups": "6 backups of 2 VMs",
    f"{_PLAY}backups -e vm_name=web1 -e virt_output=json": '"name": "web1"',
    f"{_PLAY}backups -e virt_backup_hours=26": "no backup of the last 26 h: db1 .*, web1",
    f"{_PLAY}prune_backups --check": "2 archives would be deleted",
    f"{_PLAY}prune_backups": "2 archives deleted",
    f"{_PLAY}export_backup_keys -e virt_backup_keys=backup-keys": f"web1: .*/{UUID}.key",
}


AGES = f"{_PLAY}list -e virt_backup_hours=26"


@dataclass(frozen=True)
class Controller:
    """A controller with two hypervisors that nothing is at, and a place with repositories."""

    folder: Path
    programs: _tools.Preloaded
    known: Path

    @property
    def place(self) -> Path:
        return self.folder / "place"

    @property
    def hosts(self) -> Path:
        path = self.folder / "hosts.json"
        variables = {
            "virt_backup_to": str(self.place),
            "virt_backup_passphrase": PASSPHRASE,
            "virt_backup_known": str(self.known),
            "virt_keep": {"daily": 2},
        }
        hosts = {name: {"ansible_host": "192.0.2.1"} for name in ("hv1", "hv2")}
        path.write_text(json.dumps({"hypervisors": {"hosts": hosts, "vars": variables}}))
        return path

    def run(self, playbook: str, *words: str) -> tuple[int, str]:
        status, text = self.programs.ended(
            *("ansible-playbook", "-i", str(self.hosts), f"fleet.virt.{playbook}", *words),
            # to borg the copies of a repository are one, which would be older than it was
            XDG_CACHE_HOME=str(self.folder / "cache"),
        )
        assert PASSPHRASE not in text
        return status, text

    def results(self, shown: list[Example], **options: object) -> list[dict[str, t.Any]]:
        """The results of a module's examples, with these options in place of the shown ones."""
        tasks = []
        for number, example in enumerate(shown):
            task = {**example.task, "register": f"shown_{number}"}
            (module,) = [key for key in task if key.startswith("fleet.virt.")]
            task[module] = {**task[module], **options}
            tasks.append(task)
        names = ", ".join(task["register"] for task in tasks)
        kept = self.folder / "results.json"
        content = f"{{{{ [{names}] | to_json }}}}"
        copy = {"dest": str(kept), "content": content, "mode": "0600"}
        tasks.append({"ansible.builtin.copy": copy, "delegate_to": "localhost", "run_once": True})
        play = {"hosts": "hypervisors", "gather_facts": False, "tasks": tasks}
        (self.folder / "play.json").write_text(json.dumps([play]))
        words = ("-i", str(self.hosts), str(self.folder / "play.json"))
        status, text = self.programs.ended(
            "ansible-playbook", *words, XDG_CACHE_HOME=str(self.folder / "cache")
        )
        assert status == 0, text
        results: list[dict[str, t.Any]] = json.loads(kept.read_text())
        return results


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with five backups of web1, the second of which is proven, and one of db1."""
    folder = tmp_path_factory.mktemp("made")
    access = _made.hypervisor(folder)
    _made.make(folder / "place", access, MOMENTS, proven=[PROVEN])
    _made.make(folder / "place", access, MOMENTS[-1:], "db1", OTHER)
    (folder / "place" / "lost+found").mkdir()
    return folder / "place"


@pytest.fixture
def controller(tmp_path: Path, made: Path, programs: _tools.Preloaded) -> Iterator[Controller]:
    shutil.copytree(made, tmp_path / "place")
    with _made.lasting() as state:
        yield Controller(tmp_path, programs, state / "state" / "known.json")


def _json(text: str) -> list[dict[str, t.Any]]:
    document, _end = json.JSONDecoder().raw_decode(text[text.index("\n{\n") + 1 :])
    found: list[dict[str, t.Any]] = document["vms"]
    return found


def _archives(controller: Controller, uuid: str = UUID) -> list[str]:
    access = _made.hypervisor(controller.folder)
    return _made.listed(f"{controller.place}/{uuid}", access)


def _recap(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("hv1 "))


def test_list_shows_backups_while_no_hypervisor_answers(controller: Controller) -> None:
    status, text = controller.run("backups")
    assert status == 0, text
    rows = [line.split() for line in text.splitlines() if line.startswith(("web1", "db1"))]
    assert [row[:2] for row in rows] == [
        ["db1", MOMENTS[-1]],
        *(["web1", moment] for moment in MOMENTS),
    ]
    proven = next(row for row in rows if PROVEN in row)
    assert proven[2:] == [
        "1.0G",
        *proven[3:4],
        *("frozen", "proven", "2026-11-11T02:30:00Z", "login:", "hv1"),
    ]
    assert text.count("listed and complete") == 5
    assert "6 backups of 2 VMs" in text


def test_list_of_named_vm_as_json_has_sizes_and_proof(controller: Controller) -> None:
    status, text = controller.run("backups", "-e", "vm_name=web1", "-e", "virt_output=json")
    assert status == 0, text
    (vm,) = _json(text)
    assert (vm["uuid"], vm["name"], vm["error"]) == (UUID, "web1", None)
    assert all(0 < backup["added"] < 100_000 for backup in vm["backups"])
    assert {backup["size"] for backup in vm["backups"]} == {1 << 30}
    proofs = [backup["proof"] for backup in vm["backups"]]
    assert [proof is not None for proof in proofs] == [False, True, False, False, False]
    assert proofs[1]["result"] == "booted"


def test_list_with_a_wished_age_names_vms_without_such_backup(controller: Controller) -> None:
    words = ("-e", "vm_name=web1", "-e", "virt_backup_sizes=false", "-e", "virt_backup_hours=1.5")
    status, text = controller.run("backups", *words)
    assert status == 0, text
    assert f"no backup of the last 1.5 h: web1 ({MOMENTS[-1]})" in text


def test_list_of_vms_names_those_without_such_backup(controller: Controller) -> None:
    """Of libvirt's test driver, whose only VM was saved long ago, or never."""
    there = "6695eb01-f6a4-8304-79aa-97f2502e193f"
    words = ["list", *("-e", "virt_uri=test:///default"), *("-e", "virt_become=false")]
    shown = shlex.split(AGES)[2:]
    words += ["-e", "ansible_connection=local", "-e", "ansible_python_interpreter=/usr/bin/python3"]
    status, text = controller.run(*words)
    assert status == 0, text
    assert "no backup" not in text
    assert not (controller.folder / "cache").exists(), "no repository is read"
    words += shown
    status, text = controller.run(*words)
    assert status == 0, text
    assert "no backup of the last 26 h: test (none)" in text
    access = _made.hypervisor(controller.folder)
    _made.make(controller.place, access, MOMENTS[:1], "test", there)
    status, text = controller.run(*words, "-e", "virt_output=json")
    assert status == 0, text
    assert f'"at": "{MOMENTS[0]}"' in text
    shutil.rmtree(controller.place)
    status, text = controller.run(*words)
    assert status == 2, text
    assert "how old backups are is not known: " in text


def test_list_names_what_it_could_not_read(controller: Controller) -> None:
    (controller.place / OTHER / "config").unlink()
    status, text = controller.run("backups", "-e", "virt_output=yaml")
    assert status == 2, text
    assert f"{OTHER}: borg: " in text
    status, text = controller.run("backups", "-e", "virt_names=web1,web9")
    assert status == 2, text
    assert "no backup of web9 (unless it is one that could not be read" in text


def test_prune_deletes_exactly_what_check_mode_showed(controller: Controller) -> None:
    there = _archives(controller)
    for words, printed in ((["--check"], "would only be remembered"), ([], "only remembered")):
        status, text = controller.run("prune_backups", *words)
        assert status == 0, text
        assert re.search(f"^{printed}, .*: db1, web1$", text, re.MULTILINE), text
        assert "changed=0" in _recap(text)
        assert _archives(controller) == there
        assert controller.known.exists() is (not words)
    first = controller.known.read_text()
    status, text = controller.run("prune_backups", "--check")
    assert status == 0, text
    shown = [line.split() for line in text.splitlines() if line.startswith("web1")]
    goes = [row[1] for row in shown if row[2] == "would"]
    assert goes == [MOMENTS[0], MOMENTS[2]]
    assert "kept: last proven" in text
    assert _archives(controller) == there
    assert controller.known.read_text() == first
    assert "changed=1" in _recap(text)

    status, text = controller.run("prune_backups")
    assert status == 0, text
    assert "changed=1" in _recap(text)
    assert _archives(controller) == [name for name in there if name not in goes]

    status, text = controller.run("prune_backups")
    assert (status, "changed=0" in _recap(text)) == (0, True), text
    assert controller.known.stat().st_mode & 0o777 == 0o600


def test_prune_refuses_where_a_known_archive_is_missing(controller: Controller) -> None:
    assert controller.run("prune_backups", "-e", "vm_name=db1")[0] == 0
    everything = '{"virt_keep": {"daily": 100}}'
    assert controller.run("prune_backups", "-e", everything)[0] == 0
    _made.effects_borg.run(
        _made.hypervisor(controller.folder), ["delete", f"{controller.place}/{UUID}", MOMENTS[3]]
    )
    left = _archives(controller)
    for words in (("--check",), ()):
        status, text = controller.run("prune_backups", *words)
        assert status == 2, text
        assert f"{UUID}::{MOMENTS[3]} was there when this controller last pruned" in text
        assert _archives(controller) == left
    remedy = next(word for word in text.split() if word.startswith("virt_prune_accept=")).rstrip(
        ","
    )
    status, text = controller.run("prune_backups", "-e", remedy)
    assert status == 0, text
    assert controller.run("prune_backups")[0] == 0


def test_prune_in_memory_is_refused_in_check_mode_too(controller: Controller) -> None:
    memory = {"virt_backup_known": "/dev/shm/fleet-virt-test/backups.json"}
    for words in (("--check",), ()):
        status, text = controller.run("prune_backups", *words, "-e", json.dumps(memory))
        assert status == 2, text
        assert "does not last: /dev/shm is tmpfs" in text
        assert "-e virt_backup_known=/FOLDER/backups.json" in text


def test_replaced_and_future_archives_are_named(controller: Controller) -> None:
    late = "2031-01-01T00:00:00Z"
    access, repository = _made.hypervisor(controller.folder), f"{controller.place}/{UUID}"
    assert controller.run("prune_backups")[0] == 0
    assert late not in _archives(controller)
    _made.make(controller.place, access, [late])
    status, text = controller.run("backups", "-e", "virt_backup_hours=26")
    assert status == 0, text
    assert f"web1: {UUID}::{late} is later than the clock here" in text
    assert f"web1 ({MOMENTS[-1]})" in text
    _made.effects_borg.run(access, ["delete", repository, MOMENTS[-1]])
    _made.make(controller.place, access, MOMENTS[-1:])
    for words in (("--check",), ()):
        status, text = controller.run("prune_backups", *words)
        assert status == 2, text
        assert f"{UUID}::{MOMENTS[-1]}: the id is another than when this controller last" in text
    command = r"ansible-playbook fleet\.virt\.(prune_backups -e \S+[^\s;.,\"])"
    of_id, of_place = re.findall(command, text)[:2]
    status, text = controller.run(*of_place.split(), "--check")
    assert status == 0, text
    status, text = controller.run(*of_id.split())
    assert status == 0, text
    assert re.search(rf"web1 +{late} +kept: later than the clock", text), text
    assert {late, MOMENTS[-1], MOMENTS[-2], PROVEN} <= {*_archives(controller)}
    assert controller.run("prune_backups")[0] == 0


def test_prune_refuses_where_a_known_repository_is_gone(controller: Controller) -> None:
    assert controller.run("prune_backups")[0] == 0
    shutil.rmtree(controller.place / OTHER)
    status, text = controller.run("prune_backups")
    assert status == 2, text
    assert f"-e virt_prune_accept={OTHER}" in text
    assert controller.run("prune_backups", "-e", f"virt_prune_accept={OTHER}")[0] == 0
    assert controller.run("prune_backups")[0] == 0


def test_keys_are_private_files_and_written_once(controller: Controller) -> None:
    keys = controller.folder / "keys"
    words = ("-e", f"virt_backup_keys={keys}")
    status, text = controller.run("export_backup_keys", *words, "--check")
    assert (status, keys.exists()) == (0, False), text
    status, text = controller.run("export_backup_keys", *words)
    assert (status, "changed=1" in _recap(text)) == (0, True), text
    assert {path.name for path in keys.iterdir()} == {f"{UUID}.key", f"{OTHER}.key"}
    assert {oct(path.stat().st_mode & 0o777) for path in keys.iterdir()} == {"0o600"}
    assert (keys / f"{UUID}.key").read_text().startswith("BORG_KEY ")
    assert "BORG_KEY" not in text
    os.chmod(keys / f"{UUID}.key", 0o644)
    status, text = controller.run("export_backup_keys", *words)
    assert oct((keys / f"{UUID}.key").stat().st_mode & 0o777) == "0o600"
    status, text = controller.run("export_backup_keys", *words)
    assert (status, "changed=0" in _recap(text)) == (0, True), text


def test_timers_of_two_controllers_back_up_once(controller: Controller, tmp_path: Path) -> None:
    """Their scripts, with Ansible's own commands, at the same moment."""
    backup = tmp_path / "backup.yml"
    ran = tmp_path / "ran"
    shell = {"ansible.builtin.shell": f"echo backed up >>{ran}"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [shell]}
    backup.write_text(json.dumps([play]))

    def script(number: int) -> Path:
        settings = TimerSettings(
            project=str(_tools.CHECKOUT),
            inventory=str(controller.hosts),
            command=str(_tools.programs() / "ansible-playbook"),
            arguments=(),
            playbooks=(str(backup),),
            vault_password_file=None,
            user="root",
            on_calendar="daily",
            randomized_delay="1h",
            turn_hours=12,
            on_failure=None,
        )
        path = tmp_path / f"control{number}"
        path.write_text(units.files(settings)[units.SCRIPT])
        return path

    processes = [
        subprocess.Popen(
            ["sh", str(script(number))],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / f"cache{number}")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (1, 2)
    ]
    texts = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts
    assert ran.read_text() == "backed up\n", texts
    assert sum("has the turn since" in text for text in texts) == 1, texts


def test_commands_of_the_guide_print_what_it_says(controller: Controller) -> None:
    assert controller.run("prune_backups")[0] == 0, "which only remembers what is there"
    for command, printed in COMMANDS.items():
        keys = str(controller.folder / "backup-keys")
        words = shlex.split(command.removeprefix(_PLAY).replace("backup-keys", keys))
        status, text = controller.run(*words)
        assert status == 0, text
        assert re.search(printed, text), text


def test_examples_are_run(controller: Controller) -> None:
    places = {"places": [str(controller.place)]}
    (shown,) = controller.results(examples("virt_backup_info"), **places)
    assert [vm["name"] for vm in shown["vms"]] == ["web1"]
    keys = {"dest": str(controller.folder / "keys")}
    (shown,) = controller.results(examples("virt_backup_key"), **places, **keys)
    assert shown["changed"]
    (shown,) = controller.results(examples("virt_backup_turn"), **places)
    assert shown["taken"]
    known = {"known": str(controller.known)}
    (shown,) = controller.results(examples("virt_backup_prune"), **places, **known)
    assert not shown["changed"]


def test_missing_passphrase_and_place_are_named(controller: Controller) -> None:
    status, text = controller.run("backups", "-e", "virt_backup_passphrase=")
    assert status == 2
    assert "virt_backup_passphrase is not set" in text
    status, text = controller.run("prune_backups", "-e", '{"virt_keep": null}')
    assert status == 2, text
    assert "virt_keep: it would keep nothing; write for example" in text
    status, text = controller.run("backups", "-e", "virt_backup_read_from=backup")
    assert status == 2
    assert "'backup' is no place for backups" in text
