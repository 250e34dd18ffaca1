# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that a laboratory's hypervisor runs in a fork is given what Python would have given it.

Both hosts: the one Python is 3.11, the other 3.13.
"""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .support.waiting import wait_for

_PYTHON = "/usr/bin/python3"
_SAYS = """
import sys
known = sorted({"libvirt", "lxml.etree", "ssl"} & set(sys.modules))
import json, os, signal
umask = os.umask(0)
print(json.dumps({
    "known": known, "argv": sys.argv, "path": sys.path, "name": __name__,
    "program": sys.executable, "folder": os.getcwd(), "umask": umask,
    "environment": {name: value for name, value in os.environ.items() if name != "_"},
    "open": len(os.listdir("/proc/self/fd")), "read": sys.stdin.read(),
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
}))
"""
# program: how it ends
_ENDINGS = {
    "nothing": "",
    "a number": "raise SystemExit(3)",
    "a text": "import sys; sys.exit('no such thing')",
    "an error": "def f():\n  raise ValueError('no')\nf()",
    "a wrong program": "if",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "at exit": "import atexit; atexit.register(print, 'done'); print('first', end=' ')",
    "a thread": "import threading; threading.Timer(0.1, lambda: print('late')).start()",
    "no memory of others": "import builtins; print(hasattr(builtins, 'x')); builtins.x = 1",
}
# A module, and what it imports
_MODULE = """
import sys
known = "ansible.module_utils.says_more" in sys.modules
import json, os, signal
from ansible.module_utils import basic, says_more
def main():
    module = basic.AnsibleModule({"text": {"type": "str"}}, supports_check_mode=True)
    umask = os.umask(0)
    seen, says_more.seen, basic.seen = [says_more.seen, hasattr(basic, "seen")], "it", "it"
    module.exit_json(
        known=known, loaded=says_more.loaded, seen=seen, value=says_more.value(), umask=umask,
        text=module.params["text"], check=module.check_mode, argv=sys.argv, path=sys.path,
        name=__name__, file=__file__, folder=os.getcwd(), unpacked=os.path.exists(_modlib_path),
        program=[sys.executable, sys.modules["__main__"]._module_fqn, _modlib_path],
        environment={name: value for name, value in os.environ.items() if name != "_"},
        open=len(os.listdir("/proc/self/fd")), read=sys.stdin.read(),
        profile=basic._ANSIBLE_PROFILE,
        ignored=[n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
    )
if __name__ == "__main__":
    main()
"""
_MORE = """
import os
loaded, seen = os.getpid(), ""
def value(): return 1
"""
_WAITS = """
import os, time
from ansible.module_utils import basic, says_more
print(os.getpid(), flush=True)
time.sleep(300)
"""
# What is imported does it, and forks could not inherit it
_NOT_INHERITED = {
    "a file": "f = os.open('/etc/hostname', 0)\ndef value(): return os.read(f, 9).decode()",
    "a thread": "import threading\nthreading.Timer(0.2, print, ['late']).start()",
    "environment": "os.environ['SAYS'] = 'a'\ndef value(): return os.environ.get('SAYS')",
    "folder": "os.chdir('/usr')",
    "output": "print('now')",
    "an error": "raise RuntimeError('no')",
}
# In a process of its own, as Ansible itself: it finds what it packs in ways of its own
_MAKE = """
import sys
from ansible.executor import module_common
from ansible.parsing.dataloader import DataLoader
from ansible.plugins import loader
from ansible.template import Templar
folder = sys.argv[1]
loader.init_plugin_loader([])
loader.module_utils_loader.add_directory(folder)
sys.stdout.buffer.write(module_common.modify_module(
    module_name="says", module_path=f"{folder}/says.py", module_args={},
    templar=Templar(DataLoader()), task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
    module_compression="ZIP_DEFLATED",
).b_module_data)
"""
_KEPT_ALIVE = "pgrep -f '^/usr/bin/python3 [^ ]*lab_preloaded'"
_MOST = 8


class Sender:
    """Makes what Ansible sends for a module, of one that Ansible has made."""

    def __init__(self, folder: Path) -> None:
        (folder / "says.py").write_text(_MODULE)
        (folder / "says_more.py").write_text(_MORE)
        made = [sys.executable, "-P", "-c", _MAKE, str(folder)]
        self._made = subprocess.run(made, check=True, capture_output=True, text=True).stdout

    def __call__(
        self, *, module: str = _MODULE, more: str = _MORE, year: int = 2025, **arguments: t.Any
    ) -> str:
        """``year``: when the archive was written."""
        head, archive = re.fullmatch("(?s)(.*\nzip_data=)'(.*)',\n\\)\n", self._made).groups()
        texts = {"says.py": module, "says_more.py": more}
        written = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(base64.b64decode(archive))) as before,
            zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as after,
        ):
            for name in before.namelist():
                info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                after.writestr(info, texts.get(Path(name).name) or before.read(name))
        archive = base64.b64encode(written.getvalue()).decode()
        params = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
        head = re.sub("(?m)^params=.*", lambda _found: f"params={params!r},", head)
        return f"{head}{archive!r},\n)\n"


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Sender:
    return Sender(tmp_path_factory.mktemp("says"))


def _run(lab: Laboratory, host: str, program: str, text: str) -> subprocess.CompletedProcess[str]:
    command = f"cd /srv && umask 027 && trap '' HUP && GIVEN='a b' {program}"
    return lab.ssh(host, command, input=text, check=False)


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_it_is_given_the_same(lab: Laboratory, host: str) -> None:
    own = json.loads(_run(lab, host, _PYTHON, _SAYS).stdout)
    forked = json.loads(_run(lab, host, lab.host(host).python, _SAYS).stdout)
    assert own.pop("known") == []
    assert forked.pop("known") == ["libvirt", "lxml.etree", "ssl"]
    assert forked == own


@pytest.mark.parametrize("host", ["hv1", "hv2"])
@pytest.mark.parametrize("program", _ENDINGS)
def test_it_ends_the_same(lab: Laboratory, host: str, program: str) -> None:
    for _twice in range(2):
        own = _run(lab, host, _PYTHON, _ENDINGS[program])
        forked = _run(lab, host, lab.host(host).python, _ENDINGS[program])
        assert (forked.returncode, forked.stdout) == (own.returncode, own.stdout)
        assert forked.stderr == own.stderr


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_module_is_given_the_same(lab: Laboratory, host: str, sender: Sender) -> None:
    """In its first run, and in those for which what it imports has been imported before."""
    python = lab.host(host).python
    loaded: set[int] = set()
    for text, check in (("first", False), ("second", True), ("third", False), ("\\\n'\"", False)):
        # Each archive is as another run of Ansible writes it
        program = sender(text=text, _ansible_check_mode=check, year=2020 + len(text))
        own, forked = (_says(_run(lab, host, one, program)) for one in (_PYTHON, python))
        assert (own.pop("known"), forked.pop("known")) == (False, True)
        assert (forked["text"], forked["check"]) == (text, check)
        assert forked["seen"] == ["", False]
        loaded.add(forked.pop("loaded"))
        del own["loaded"]
        assert forked == own
    assert len(loaded) == 1
    assert lab.ssh(host, "ls /tmp | grep ansible_says", check=False).stdout == ""


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_module_that_changed_is_another(lab: Laboratory, host: str, sender: Sender) -> None:
    """It itself, what it imports, the environment in which that is imported, or a package."""
    python = lab.host(host).python
    first = sender()
    changed = {
        "what it imports": sender(more=_MORE.replace("return 1", "return 2")),
        "itself": sender(module=_MODULE.replace("value=says_more.value()", "value=3")),
    }
    loaded = [_says(_run(lab, host, python, first))]
    loaded += [_says(_run(lab, host, python, program)) for program in changed.values()]
    loaded += [_says(lab.ssh(host, f"GIVEN=c {python}", input=first))]
    installed = "/usr/lib/python3/dist-packages/says"
    lab.ssh(host, f"mkdir {installed} && rmdir {installed}")
    loaded += [_says(_run(lab, host, python, first)) for _twice in range(2)]
    assert [says["value"] for says in loaded] == [1, 2, 3, 1, 1, 1]
    assert len({says["loaded"] for says in loaded}) == 5
    assert loaded[-1]["loaded"] == loaded[-2]["loaded"]


@pytest.mark.parametrize("what", _NOT_INHERITED)
def test_what_a_fork_would_not_inherit(lab: Laboratory, sender: Sender, what: str) -> None:
    program = sender(more=f"{_MORE}{_NOT_INHERITED[what]}\n")
    own = _run(lab, "hv2", _PYTHON, program)
    for _twice in range(2):
        forked = _run(lab, "hv2", lab.host("hv2").python, program)
        assert (forked.returncode, forked.stderr) == (own.returncode, own.stderr)
        assert _LOADED.sub("", forked.stdout) == _LOADED.sub("", own.stdout)


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_module_ends_the_same(lab: Laboratory, host: str, sender: Sender) -> None:
    """By an error; it may show more lines of the source, of an archive that is still there."""
    program = sender(module=_MODULE.replace("umask = os.umask(0)", "raise GeneratorExit('no')"))
    own = _run(lab, host, _PYTHON, program)
    for _twice in range(2):
        forked = _run(lab, host, lab.host(host).python, program)
        assert (forked.returncode, forked.stdout) == (own.returncode, own.stdout) == (1, "")
        shown, expected = (_frames(run.stderr) for run in (forked, own))
        assert shown == expected
        assert "says.py" in shown


def test_few_are_kept(lab: Laboratory, sender: Sender) -> None:
    """Those used last; what was not kept runs as well."""
    python, program = lab.host("hv2").python, sender()
    for number in [*range(_MOST + 2), 0]:
        says = _says(lab.ssh("hv2", f"GIVEN={number} {python}", input=program))
        assert says["environment"]["GIVEN"] == str(number)
    wait_for(lambda: len(_servers(lab, "hv2")) == 1 + _MOST, 10, "the oldest are gone")


def test_words_and_users_get_a_python_of_their_own(lab: Laboratory) -> None:
    text = "import sys; print('libvirt' in sys.modules)"
    python = lab.host("hv2").python
    assert lab.ssh("hv2", [python, "-c", text]).stdout == "False\n"
    assert lab.ssh("hv2", python, input=text, user_root=False).stdout == "False\n"
    assert lab.ssh("hv2", python, input=text).stdout == "True\n"


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_a_program_of_the_tests_has_words(lab: Laboratory, host: str) -> None:
    text = "from __future__ import annotations\nimport sys\n"
    text += "print(sys.argv, __name__, 'libvirt' in sys.modules)"
    words = ["it's", '{"a": "\\n"}']
    assert lab.python(host, text, words).stdout == f"{['-', *words]} __main__ True\n"
    done = lab.python(host, "import sys; sys.exit(len(sys.argv))", check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("module", [False, True])
def test_neither_outlives_the_other(lab: Laboratory, sender: Sender, module: bool) -> None:
    """Who asked is killed, as a module is; and the server, which nobody else does."""
    python = lab.host("hv1").python
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
    if module:
        text = sender(module=_WAITS)
    begin = (
        "cd /run; rm -f forked; cat >program\n"
        f"{python} <program >forked & until [ -s forked ]; do sleep 0.05; done"
    )
    killed = lab.ssh("hv1", f"{begin}; kill -9 $!; cat forked", input=text).stdout.strip()
    wait_for(lambda: not _lives(lab, killed), 10, f"process {killed} is gone")

    server = "systemctl show --property MainPID --value lab-preloaded"
    end = f"kill -9 $({server}); wait $!; echo $?; cat forked; rm forked program"
    before = _servers(lab, "hv1")
    status, left = lab.ssh("hv1", f"{begin}; {end}", input=text).stdout.split()
    assert status == "137"
    for pid in (left, *before):
        wait_for(lambda pid=pid: not _lives(lab, pid), 10, f"process {pid} is gone")
    wait_for(lambda: _serves(lab, python), 20, "the server is back")


_LOADED = re.compile(r'"loaded": \d+|_payload_\w+')


def _says(run: subprocess.CompletedProcess[str]) -> dict[str, t.Any]:
    """What the module said, with the folder of an archive, which is chosen each time, taken out."""
    said = re.sub(r'[^"]*/(ansible_says_payload\.zip)', r"\1", run.stdout)
    return dict(json.loads(said))


def _frames(shown: str) -> str:
    """Of an error that Python shows, but for the lines of the source and the archive's folder."""
    lines = [line for line in shown.splitlines() if not line.startswith("    ")]
    return re.sub(r'"[^"]*/(ansible_says_payload\.zip)', r'"\1', "\n".join(lines))


def _servers(lab: Laboratory, host: str) -> list[str]:
    return list(lab.ssh(host, _KEPT_ALIVE).stdout.split())


def _lives(lab: Laboratory, pid: str) -> bool:
    return lab.ssh("hv1", f"kill -0 {pid}", check=False).returncode == 0


def _serves(lab: Laboratory, python: str) -> bool:
    text = "import sys; print('libvirt' in sys.modules)"
    return lab.ssh("hv1", python, input=text).stdout == "True\n"
