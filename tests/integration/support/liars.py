# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An honest module, and modules that lie to the harness: the honest one with one line replaced.

What each does is a text, so that it is a module on a hypervisor and a function in a test.
"""

from __future__ import annotations

__all__ = ["HONEST", "LIARS", "lying", "module"]

# It makes a file hold a text; ``path``, ``text`` and ``check`` are given
HONEST = """
import os
import pathlib
import uuid

before = pathlib.Path(path).read_text() if os.path.exists(path) else ""
changed = before != text
predicted_text = text
identifier = ("(generated)" if check else str(uuid.uuid4())) if changed else None
secret = "fixed"
steps = [{"step": "write", "path": path}] if changed else []
write = changed and not check
diff = {"before": before, "after": f"{text}\\nuuid: {identifier}\\n"} if changed else None
failed = False
msg = "cannot"
if write:
    with open(path, "w") as file:
        file.write(text)
result = {"changed": changed, "text": predicted_text, "uuid": identifier, "steps": steps}
result["secret"] = secret
if diff:
    result["diff"] = diff
"""
_BEFORE = """
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"path": {}, "text": {}}, supports_check_mode=True)
path, text, check = module.params["path"], module.params["text"], module.check_mode
"""
_AFTER = """
if failed:
    module.fail_json(msg=msg, **result)
module.exit_json(**result)
"""
# name: (line of the honest module, what replaces it, what the harness says)
LIARS = {
    "changes in check mode": (
        "write = changed and not check",
        "write = changed",
        "check mode changed something:",
    ),
    "leaves something behind in check mode": (
        "failed = False",
        "failed = False; check and open(path + '.tmp', 'w').close()",
        "check mode changed something:",
    ),
    "predicts another value": (
        "predicted_text = text",
        "predicted_text = text.upper() if check else text",
        "text: 'WANTED' -> 'wanted'",
    ),
    "predicts another number of steps": (
        "steps = [{",
        "steps = [] if check else [{",
        "steps: 0 entries -> 1",
    ),
    "predicts no change": (
        "changed = before != text",
        "changed = before != text and not check",
        "changed: False -> True",
    ),
    "predicts a value that does not come": (
        "secret = ",
        "secret = 'soon' if check else ",
        "secret: 'soon' -> 'fixed'",
    ),
    "predicts another diff": (
        "failed = False",
        "failed = False; diff = dict(diff, after='') if check and diff else diff",
        "diff.after: ",
    ),
    "leaves open what it could know": (
        "secret = ",
        "secret = '(generated)' if check else ",
        "secret: '(generated)' -> 'fixed'",
    ),
    "shows no diff": ("if diff:", "if False:", "says changed=True with the diff null"),
    "shows a diff of nothing": (
        "diff = {",
        "diff = {'before': '', 'after': 'x'} if not changed else {",
        "says changed=False with the diff",
    ),
    "always says changed": (
        "changed = before != text",
        "changed = True",
        "second run: says changed",
    ),
    "says changed but does nothing": (
        "write = changed and not check",
        "write = False",
        "says changed, but nothing that is watched changed",
    ),
    "changes silently": (
        "result = {",
        "changed, diff = False, None; identifier, steps = None, []; result = {",
        "says unchanged, but changed:",
    ),
    "does it a second time": (
        "write = changed and not check",
        "write = not check",
        "the second run changed something",
    ),
    "predicts a change for ever": (
        "failed = False",
        "failed = False; changed, diff = (True, {'before': '', 'after': 'x'}) if check and not "
        "changed else (changed, diff)",
        "check mode afterwards: says changed",
    ),
    "fails in check mode": ("failed = False", "failed = check", "check mode failed (2)"),
}


def lying(line: str, lie: str, body: str = HONEST) -> str:
    """The body with that one line replaced."""
    assert body.count(line) == 1
    return body.replace(line, lie)


def module(body: str) -> str:
    """The source of a module of Ansible that does this."""
    return f"{_BEFORE}{body}{_AFTER}"
