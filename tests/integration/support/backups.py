# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives of VMs that are off, made with borg by hand in the form of docs/design/backup.md."""

from __future__ import annotations

import shlex

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

PASSPHRASE = "marker-of-a-passphrase"  # noqa: S105
AT = "/srv/backup"  # where every hypervisor has the place
# The archive is made of what virsh and qemu-img say, and of nothing of ours
_SCRIPT = r"""
import hashlib, json, os, shutil, subprocess, sys, tempfile
name, moment, place, damage = sys.argv[1:]
def out(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
xml = out("virsh", "dumpxml", "--inactive", name)
uuid = out("virsh", "domuuid", name).decode().strip()
made = tempfile.mkdtemp(dir="/var/tmp")
os.chdir(made)
os.mkdir("disks")
open("domain.xml", "wb").write(xml)
disks, files = [], ["domain.xml"]
for line in out("virsh", "-q", "domblklist", name, "--details").decode().splitlines():
    kind, device, target, source = line.split()
    if device != "disk":
        continue
    info = json.loads(out("qemu-img", "info", "--output=json", source))
    raw = f"disks/{target}.raw"
    out("qemu-img", "convert", "-O", "raw", source, raw)
    disks.append({"target": target, "size": info["virtual-size"], "format": info["format"]})
    files.append(raw)
head = {"fleet.virt": 1, "vm": name, "uuid": uuid, "host": os.uname().nodename, "at": moment,
        "consistency": "shut off", "disks": disks}
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
listed = [{"path": f, "size": os.path.getsize(f), "sha256": digest(f)} for f in files]
if damage:
    with open(files[-1], "r+b") as disk:
        disk.write(b"damage")
json.dump({**head, "files": listed}, open("manifest.json", "w"))
repository = f"{place}/{uuid}"
if not os.path.exists(repository):
    out("borg", "init", "--encryption", "repokey-blake2", repository)
comment = json.dumps(head).replace("{", "{{").replace("}", "}}")
out("borg", "create", "--sparse", "--chunker-params", "fixed,262144", "--files-cache=disabled",
    "--comment", comment, f"{repository}::{moment}", "manifest.json", *files)
print(uuid)
os.chdir("/")
shutil.rmtree(made)
"""


def save(lab: Laboratory, host: str, name: str, moment: str, *, damaged: bool = False) -> str:
    """Save a VM that is off; its UUID. ``damaged``: its disk is another than the manifest says."""
    words = shlex.join([name, moment, AT, "yes" if damaged else ""])
    run = f"BORG_PASSPHRASE={PASSPHRASE} BORG_BASE_DIR=/var/tmp/borg python3 - {words}"
    return lab.ssh(host, run, input=_SCRIPT).stdout.strip()
