# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that the documentation shows is run: examples of modules and plugins, commands, plays.

A module without an entry in ``_STAGES``, and a command without one in ``_COMMANDS``, is a failure.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.tests.contract import documentation, test_documentation
from ansible_collections.fleet.virt.tests.contract.controller.test_backups import (
    AGES as OF_AGES,
)
from ansible_collections.fleet.virt.tests.contract.controller.test_backups import (
    COMMANDS as OF_BACKUPS,
)
from ansible_collections.fleet.virt.tests.integration.backup.test_backup import (
    COMMANDS as OF_SAVING,
)
from ansible_collections.fleet.virt.tests.integration.backup.test_verify import (
    COMMANDS as OF_PROOFS,
)
from ansible_collections.fleet.virt.tests.integration.keys.test_documented import (
    COMMANDS as OF_KEYS,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_adopt import (
    COMMANDS as OF_ADOPTING,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_adopt import (
    RENAME as OF_RENAMING,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_adopt import (
    RENAME_VOLUMES as OF_RENAMING_VOLUMES,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_documented import (
    COMMANDS as OF_MIGRATION,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_foresight import (
    COMMANDS as OF_FORESIGHT,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_lost_source import (
    OF_A_LOST_SOURCE,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_restart_elsewhere import (
    COMMANDS as OF_RESTARTS,
)
from ansible_collections.fleet.virt.tests.integration.migration.test_rolling import (
    COMMANDS as OF_ROLLING,
)
from ansible_collections.fleet.virt.tests.integration.preflight.test_preflight import (
    COMMANDS as OF_PREFLIGHT,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_change import (
    COMMANDS as OF_CHANGES,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_copies import (
    COMMANDS as OF_COPIES,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_doctor import (
    COMMANDS as OF_DOCTOR,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_documented import (
    COMMANDS as CHANGING,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_documented import (
    CREATING,
    CREATING_SEVERAL,
    REMOVING_A_GROUP,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_import import (
    COMMANDS as OF_IMPORTS,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_move_disk import (
    COMMANDS as OF_MOVED_DISKS,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_noted import OF_UNASKED
from ansible_collections.fleet.virt.tests.integration.provisioning.test_plan import (
    COMMANDS as OF_PLAN,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_restore import (
    COMMANDS as OF_RESTORES,
)
from ansible_collections.fleet.virt.tests.integration.provisioning.test_snapshot import (
    COMMANDS as OF_SNAPSHOTS,
)
from ansible_collections.fleet.virt.tests.integration.reading.test_console import (
    COMMANDS as OF_CONSOLES,
)
from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.integration.support.ansible import PROGRAMS, Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import BLANK, IMAGES, Guests
from ansible_collections.fleet.virt.tests.integration.test_cell import (
    COMMANDS as OF_CELLS,
)
from ansible_collections.fleet.virt.tests.integration.test_image_peers import (
    COMMAND as OF_PEERS,
)
from ansible_collections.fleet.virt.tests.integration.test_image_sources import OF_THE_CATALOGUE
from ansible_collections.fleet.virt.tests.integration.test_image_users import (
    COMMANDS as OF_IMAGES,
)
from ansible_collections.fleet.virt.tests.integration.test_maintenance import (
    COMMANDS as OF_MAINTENANCE,
)
from ansible_collections.fleet.virt.tests.integration.test_purge import OF_THE_LOST
from ansible_collections.fleet.virt.tests.lab import images

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDES = sorted((CHECKOUT / "docs" / "docsite" / "rst").glob("*.rst"))
# Those of the inventory plugin: tests/contract/test_documentation.py
_LOOKUPS = sorted(
    path for path in (CHECKOUT / "plugins" / "lookup").glob("*.py") if path.name[0] != "_"
)


@dataclass(frozen=True)
class Stage:
    """Where a module's examples are run: hosts, extra variables, and words replaced in them."""

    hosts: str = "hv1"
    become: bool = True
    variables: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    replaced: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Props:
    """What a stage may need, and what is taken away afterwards."""

    def __init__(self, ansible: Ansible, guests: Guests, folder: Path) -> None:
        self.ansible = ansible
        self.guests = guests
        self.folder = folder
        self.made: list[str] = []
        self.keys = False
        self.timer = False
        self.new_pool = False  # whether the pool base was not there before
        self.as_shipped = False  # whether libvirt is to be as its packages left it

    def variables(self, *, boots: bool = True) -> dict[str, Any]:
        """A folder of images and a key for the VMs, as an administrator sets them.

        ``boots``: the images have an operating system.
        """
        pictures = self.folder / "images"
        pictures.mkdir()
        for name in ("debian12.qcow2", "centos.img"):
            if boots:
                (pictures / name).symlink_to(images.image("tiny"))
            else:
                blank.make(pictures / name)
        key = self.folder / "id_ed25519"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key)]
        subprocess.run(command, check=True)
        return {"virt_image_dir": str(pictures), "virt_ssh_public_key": f"{key}.pub"}

    def image_there(self) -> None:
        """The image that examples expect on the hypervisor."""
        self.guests.prepare("hv1")
        self.guests.script("hv1", f"cp {BLANK} {IMAGES}/centos.qcow2")

    def vms(self, variables: Mapping[str, Any], *names: str, start: bool = True) -> None:
        """Virtual machines made by the collection itself."""
        self.made += names
        for name in names:
            options = {"name": name, "memory": 96, "image": "debian12.qcow2", "start": start}
            done = self.ansible.module("hv1", "virt_init", options, extra=variables)
            assert not done["hv1"]["failed"], done

    def strike(self) -> None:
        """Take away what examples made."""
        for name in self.made:
            self.guests.script(
                "hv1",
                f"virsh -q destroy {name} 2>/dev/null || true\n"
                f"virsh -q undefine {name} --managed-save --nvram --snapshots-metadata 2>/dev/null"
                " || true\n"
                f"rm -f {IMAGES}/{name}[._-]*\n"
                "virsh -q pool-refresh default || true\n",
            )
        self.guests.script("hv1", f"rm -f {IMAGES}/centos.qcow2")
        for host in ("hv1", "hv2") if self.keys else ():
            folders = "/etc/pki/CA /etc/pki/libvirt /etc/pki/libvirt-vnc /etc/pki/qemu"
            self.guests.script(host, f"rm -rf {folders}")
        if self.new_pool:
            self.guests.script(
                "hv1",
                "virsh -q pool-destroy base; virsh -q pool-undefine base\n"
                "rm -rf /var/lib/libvirt/base /var/lib/libvirt/images/fleet-virt.pool-id\n",
            )
        if self.timer:
            self.guests.script(
                "hv1",
                "systemctl disable --now fleet-virt-backup.timer\n"
                "rm -f /etc/systemd/system/fleet-virt-backup.* /usr/local/sbin/fleet-virt-backup\n"
                "systemctl daemon-reload\n",
            )
        if self.as_shipped:
            files = "/etc/libvirt/*.conf /etc/default/libvirt*"
            self.guests.script(
                "hv1",
                f"sed -i '/BEGIN fleet.virt/,/END fleet.virt/d' {files}\n"
                "systemctl restart libvirtd.service\n",
            )


_VIDEO = "<video><model type='vga'/></video>"


def _nothing(_props: Props) -> Stage:
    return Stage("hypervisors")


def _web1(_props: Props) -> Stage:
    return Stage()


def _timer(props: Props) -> Stage:
    props.timer = True
    return Stage()


def _daemon(props: Props) -> Stage:
    props.as_shipped = True
    return Stage()


def _pool(props: Props) -> Stage:
    props.new_pool = "base" not in props.guests.virsh("hv1", "pool-list", "--all").split()
    return Stage()


def _init(props: Props) -> Stage:
    props.image_there()
    props.made += ["centos1", "database1"]
    return Stage(variables=props.variables())


def _keys(props: Props) -> Stage:
    props.keys = True
    folder = str(props.folder / "keys")
    return Stage(replaced={"~/.local/share/fleet-virt/keys/fleet": folder})


def _off(props: Props) -> Stage:
    variables = props.variables()
    props.vms(variables, "web1", start=False)
    props.made.append("web9")
    return Stage(variables=variables)


def _off_and_fast(props: Props) -> Stage:
    props.guests.pool("hv1", "fast", "/srv/fast")
    return _off(props)


def _off_both(props: Props) -> Stage:
    variables = props.variables()
    props.vms(variables, "web1", "db1", start=False)
    props.made.extend(("web9", "db9"))
    return Stage(variables=variables)


def _seed(props: Props) -> Stage:
    variables = props.variables()
    nics = [{"name": name, "bridge": "br0"} for name in ("eth0", "eth1")]
    for name in ("web1", "db1", "old1"):
        options = {"name": name, "memory": 96, "start": False, "nics": nics}
        done = props.ansible.module("hv1", "virt_init", options, extra=variables)
        assert not done["hv1"]["failed"], done
        props.made.append(name)
    return Stage(variables=variables)


def _legacy1(props: Props) -> Stage:
    props.guests.define("hv1", "legacy1")
    return Stage()


def _off_to_copy(props: Props) -> Stage:
    props.guests.define("hv1", "web1")
    return Stage()


_STAGES: dict[str, Callable[[Props], Stage]] = {
    "virt_backup_timer": _timer,
    "virt_clone": _off_to_copy,
    "virt_adopt": _legacy1,
    "virt_firewall": _nothing,
    "virt_cell": _nothing,
    "virt_daemon": _daemon,
    "virt_doctor": _nothing,
    "virt_init": _init,
    "virt_keys": _keys,
    "virt_maintenance": _pool,
    "virt_move_disk": _off_and_fast,
    "virt_packages": _nothing,
    "virt_pool": _pool,
    "virt_rename": _off_both,
    "virt_seed": _seed,
    "virt_snapshot": _off,
}
# The same for those that only look at a VM that runs, on hv1 of the shared fleet
_LOOKING: dict[str, Callable[[Props], Stage]] = {
    "virt_console": _web1,
    "virt_console_log": _web1,
}


@pytest.fixture
def props(ansible: Ansible, guests: Guests, tmp_path: Path) -> Iterator[Props]:
    """What stages are made of."""
    found = Props(ansible, guests, tmp_path)
    yield found
    found.strike()


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, words) for one in value]
    for old, new in words.items():
        if isinstance(value, str):
            value = value.replace(old, new)
    return value


# Run where there is what they need: keys (preflight/, migration/), a network of their own to
# break (test_bridge.py), a power switch (test_fence.py), a server (test_image_sources.py), a base
# pool (test_image_users.py), VMs that other tests have as well (test_purge.py, test_state.py,
# test_wait.py)
_ELSEWHERE = {
    "virt_backup",
    "virt_backup_info",
    "virt_backup_key",
    "virt_backup_prune",
    "virt_backup_turn",
    "virt_bridge",
    "virt_fence",
    "virt_import",
    "virt_template",
    "virt_image",
    "virt_image_info",
    "virt_migrate",
    "virt_preflight",
    "virt_purge",
    "virt_restart",
    "virt_restore",
    "virt_restore_disk",
    "virt_restore_file",
    "virt_state",
    "virt_verify_backups",
    "virt_wait",
}


def test_every_module_has_a_stage() -> None:
    modules = {*_STAGES, *_LOOKING, *_ELSEWHERE, *test_documentation.HERE}
    assert modules == set(documentation.modules())


@pytest.mark.parametrize("module", _STAGES)
def test_examples_of_module(module: str, props: Props) -> None:
    _run_examples(module, _STAGES[module](props), props)


def _run_examples(module: str, stage: Stage, props: Props) -> None:
    examples = documentation.examples(module)
    assert examples
    tasks = [_replaced(example.task, stage.replaced) for example in examples]
    run = props.ansible.play(
        tasks, stage.hosts, become=stage.become, vars=dict(stage.variables)
    ).succeeded()
    for example in examples:
        answers = [event for event in run.events if event.task == example.name]
        assert answers, f"{example.name!r} was not run\n{run}"
        assert {event.status for event in answers} == {"ok"}, f"{example.name!r}\n{run}"


# Commands of README.md and the guides, and what each prints
_PLAY = "ansible-playbook fleet.virt."
_PLAIN = f"ANSIBLE_STDOUT_CALLBACK=fleet.virt.output {_PLAY}"
_ADHOC = "ansible hypervisors "
_JSON_FILE = "-e virt_output=json -e virt_output_file=fleet.json"
_ASK_WEB1 = "-b -m fleet.virt.virt_query -a 'names=web1 ignore_missing=true"
_WEB1 = r"web1\n +CPU: 1"
_DB1 = r"db1\n +CPU: 1"
_COMMANDS: dict[str, str] = {
    f"{_ADHOC}-m ansible.builtin.ping": r'hv2 \| SUCCESS[^{]*\{(.*\n)*.*"ping": "pong"',
    f"{_ADHOC}-b -m fleet.virt.virt_host_info": r"hv2 \| SUCCESS",
    f"{_ADHOC}{_ASK_WEB1} stats=true'": r'"name": "web1"',
    f"{_ADHOC}{_ASK_WEB1} addresses=true'": r'"name": "web1"',
    f"{_ADHOC}-m fleet.virt.virt_host_info -a 'uri=qemu:///session'": r'"uri": "qemu:///session"',
    "ansible localhost -m fleet.virt.virt_query -a 'uri=test:///default'": r'"name": "test"',
    f"{_PLAY}adopt --check": r"db1 +hv2 +would be adopted",
    f"{_PLAY}console_log -e vm_name=web1": r"web1 on hv1:\n  \S",
    f"{_PLAY}host_info": r"hv1 +ready(.*\n)*hv2 +ready",
    f"{_PLAY}host_info --limit hv1": r"hv1 +ready",
    f"{_PLAY}list": r"hv1 +web1 +running(.*\n)*hv2 +db1 +shutoff",
    f"{_PLAY}list --limit hv1": r"hv1 +web1",
    f"{_PLAY}list -e virt_show_noted=false": r"hv1 +web1 +running",
    f"{_PLAY}list -e virt_output=json": r'"name": "db1"',
    f"{_PLAIN}list -e virt_output=json | python3 -m json.tool": r'^\{(.*\n)*.*"name": "db1"',
    f"{_PLAIN}host_info -e virt_output=csv | cut -d, -f1,6": r"^hypervisor,cpus\nhv1,\d+\nhv2,\d",
    f"{_PLAY}list -e virt_filter_state=running,paused -e virt_sort=memory": r"1 of 2 domains are",
    f"{_PLAY}list -e virt_group=shop -e 'virt_filter_name=web*'": r"0 of 2 domains are shown",
    f"{_PLAY}list -e virt_columns=groups,autostart,snapshots": (
        r"REASON +GROUPS +AUTOSTART +SNAPSHOTS\n *hv1 +web1 +running +\S+ +- +no +0"
    ),
    f"{_PLAY}query -e virt_names=web1 -e virt_columns=tags,start_order": (
        r"State: running \(.*\)\n +Tags: -\n +Start order: -\n"
    ),
    f"{_PLAY}query -e virt_filter_managed=false": _DB1,
    f"{_PLAY}list {_JSON_FILE}": r"changed: ",
    f"{_PLAY}query": rf"{_WEB1}(.*\n)*.*{_DB1}",
    f"{_PLAY}query -e virt_names=web1": _WEB1,
    f"{_PLAY}query -e virt_names=web1,db1": rf"{_WEB1}(.*\n)*.*{_DB1}",
    f"""{_PLAY}query -e '{{"virt_names": ["web1", "db1"]}}'""": _DB1,
    f"{_PLAY}query {_JSON_FILE}": r"changed: ",
    f"{_PLAY}screenshot -e virt_screenshots=screens": r"web1 +hv1 +\d+x\d+ +hv1/web1\.png",
    f"{_PLAY}screenshot -e vm_name=web1": r"web1 +hv1 +\d+x\d+ +hv1/web1\.png",
    'ansible-playbook -i "$(tests/lab/lab inventory)" fleet.virt.list': r"hv1 +web1 +running",
    "ansible-inventory --graph": r"@guests_hv1:\n.*web1",
    "ansible-inventory --host web1": r'"virt_hypervisor": "hv1"',
    "ansible-galaxy collection install ./fleet.virt": r"fleet\.virt:\S+ was installed successfully",
    'make lab ARGS="up 2"': r"up with 2 host",
    'make lab ARGS="status"': r"hv1 \S+ bookworm",
    'make lab ARGS="down"': r"down \(",
}
_OURS = "<metadata><fleet xmlns='urn:fleet.virt:1'/></metadata>"
_SHOWN = re.compile(r"(?:\$ )?((?:(?:ANSIBLE_\w+=\S+ )?ansible(?:-\w+)?|make lab) .*?)(?:  +#.*)?$")

_INLINE = re.compile(r"`(ansible(?:-playbook|-inventory)? [^`]+)`")  # also in tables


def _blocks(path: Path) -> Iterator[tuple[str, str]]:
    """The code blocks of a document: language and text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        return
    pattern = r"^\.\. code-block:: (\w+)\n\n((?:    .*\n|\n)+)"
    for language, block in re.findall(pattern, text, re.MULTILINE):
        yield language, re.sub(r"^    ", "", block, flags=re.MULTILINE)


def _shown() -> list[str]:
    found: list[str] = []
    for path in (CHECKOUT / "README.md", *GUIDES):
        for language, block in _blocks(path):
            if language in {"sh", "shell", "console"}:
                lines = [part for line in block.splitlines() for part in line.split(" && ")]
                found += [match[1] for line in lines if (match := _SHOWN.match(line))]
        if path.suffix == ".md":
            found += _INLINE.findall(path.read_text(encoding="utf-8"))
    return list(dict.fromkeys(found))


# Run by test_demo.py, which runs the demonstration
_OF_THE_DEMONSTRATION = (
    f"{_PLAY}provision_vm -e vm_name=debian1 -e vm_memory=512 -e vm_image=debian12.qcow2",
)


# Run by test_setup.py on machines that are bare
_OF_SETUP = (f"{_PLAY}setup_hypervisors",)


def test_every_command_shown_is_run() -> None:
    run = {
        *_COMMANDS,
        *CHANGING,
        *REMOVING_A_GROUP,
        *OF_ADOPTING,
        OF_RENAMING,
        OF_RENAMING_VOLUMES,
        *OF_CELLS,
        *OF_CHANGES,
        *OF_CONSOLES,
        *OF_DOCTOR,
        *OF_IMPORTS,
        *OF_MOVED_DISKS,
        *OF_SNAPSHOTS,
        *OF_BACKUPS,
        OF_AGES,
        *OF_COPIES,
        *OF_IMAGES,
        OF_PEERS,
        OF_THE_CATALOGUE,
        *OF_KEYS,
        *OF_MAINTENANCE,
        *OF_RESTARTS,
        *OF_ROLLING,
        *OF_FORESIGHT,
        *OF_SAVING,
        *OF_PROOFS,
        *OF_RESTORES,
        *OF_MIGRATION,
        *OF_PLAN,
        *OF_PREFLIGHT,
        OF_THE_LOST,
        OF_UNASKED,
        OF_A_LOST_SOURCE,
        *CREATING,
        CREATING_SEVERAL,
        *_OF_THE_DEMONSTRATION,
        *_OF_SETUP,
    }
    assert sorted(_shown()) == sorted(run)


class Desk:
    """An administrator's shell in the folder of the example fleet."""

    def __init__(self, ansible: Ansible, guests: Guests, folder: Path) -> None:
        self.folder = folder / "fleet"
        shutil.copytree(CHECKOUT / "docs" / "examples" / "fleet", self.folder)
        shutil.copy(guests.lab.inventory / "10-hypervisors.yml", self.folder / "inventory")
        (self.folder / "fleet.virt").symlink_to(CHECKOUT)
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")
        }
        self.environment["ANSIBLE_COLLECTIONS_PATH"] = os.environ["ANSIBLE_COLLECTIONS_PATH"]
        self.environment["ANSIBLE_HOME"] = str(ansible.home)
        self.environment["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"
        self.lab = guests.lab.name

    def run(self, command: str, *, folder: Path | None = None, **environment: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder or self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def desk(
    ansible: Ansible, all_guests: Guests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    """A fleet with a guest that runs on hv1 and one that is shut off on hv2."""
    all_guests.define("hv1", "web1", start=True, top=_OURS, devices=_VIDEO)
    all_guests.define("hv2", "db1")
    yield Desk(ansible, all_guests, tmp_path_factory.mktemp("desk"))
    all_guests.remove("hv1", "web1")
    all_guests.remove("hv2", "db1")


@pytest.mark.parametrize("module", _LOOKING)
@pytest.mark.usefixtures("desk")
def test_module_examples_on_shared_vm_run_as_written(module: str, props: Props) -> None:
    _run_examples(module, _LOOKING[module](props), props)


@pytest.mark.parametrize("plugin", _LOOKUPS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("desk")
def test_lookup_examples_run_as_written(plugin: Path, ansible: Ansible, tmp_path: Path) -> None:
    texts = list(yaml.safe_load_all(documentation.texts(plugin)["EXAMPLES"]))
    assert texts
    for number, content in enumerate(texts):
        path = tmp_path / f"{number}.yml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        run = ansible.playbook(str(path)).succeeded()
        assert {event.host for event in run.events} == {"hv1", "hv2"}


def _others(lab: str) -> str:
    """The name of a laboratory of its own, for commands about laboratories."""
    return f"e{os.getpid()}" if lab != f"e{os.getpid()}" else "examples"


@pytest.mark.parametrize("command", [c for c in _COMMANDS if not c.startswith("make")])
def test_command(command: str, desk: Desk) -> None:
    if "tests/lab/lab" in command:
        named = command.replace("tests/lab/lab", f"tests/lab/lab --name {desk.lab}")
        printed = desk.run(named, folder=CHECKOUT)
    elif command.startswith("ansible-galaxy"):
        printed = desk.run(command, ANSIBLE_COLLECTIONS_PATH=str(desk.folder / "collections"))
        assert (desk.folder / "collections/ansible_collections/fleet/virt/meta").is_dir()
    else:
        printed = desk.run(command)
    assert re.search(_COMMANDS[command], printed), f"{_COMMANDS[command]}\n{printed}"
    (desk.folder / "fleet.json").unlink(missing_ok=True)


def test_commands_of_the_laboratory(desk: Desk) -> None:
    """In the order shown; a name of their own instead of the default."""
    name = _others(desk.lab)
    commands = [command for command in _shown() if command.startswith("make")]
    assert commands
    try:
        for command in commands:
            named = command.replace('ARGS="', f'ARGS="--name {name} ')
            printed = desk.run(named, folder=CHECKOUT)
            assert re.search(_COMMANDS[command], printed), printed
    finally:
        desk.run(f"tests/lab/lab --name {name} down", folder=CHECKOUT)


def _plays() -> Iterator[list[dict[str, Any]]]:
    for path in (CHECKOUT / "README.md", *GUIDES):
        for language, block in _blocks(path):
            content = yaml.safe_load(block) if language == "yaml" else None
            # what a controller runs by itself is run in the scenario of its role
            if isinstance(content, list) and content[0].get("hosts") not in (None, "controllers"):
                yield content


def _names(plays: Sequence[list[dict[str, Any]]]) -> list[str]:
    return [str(play[0].get("name")) for play in plays]


@pytest.mark.parametrize("play", list(_plays()), ids=_names(list(_plays())))
def test_play(play: list[dict[str, Any]], desk: Desk) -> None:
    path = desk.folder / "play.yml"
    path.write_text(yaml.safe_dump(play, sort_keys=False), encoding="utf-8")
    printed = desk.run("ansible-playbook play.yml")
    assert re.search(r"hv1 +: ok=[1-9]\d* .*failed=0", printed), printed


def test_inventory_shown_is_one(desk: Desk) -> None:
    """Blocks of YAML that are inventories are read as such."""
    found = 0
    for path in GUIDES:
        for language, block in _blocks(path):
            content = yaml.safe_load(block) if language == "yaml" else None
            if isinstance(content, dict) and "hypervisors" in content:
                (desk.folder / "shown.yml").write_text(block, encoding="utf-8")
                printed = desk.run("ansible-inventory -i shown.yml --graph")
                assert "@hypervisors:\n  |  |--hv1" in printed
                found += 1
    assert found
