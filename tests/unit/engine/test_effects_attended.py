# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last command of a unit that works for a caller."""

from __future__ import annotations

import re
import shlex
import subprocess

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_attended as attended,
)

_SCRIPT = """
for word in "$@"; do
  case "$word" in *%*) printf '<%s>\\n' "$word" ;; *) echo "[$word]" ;; esac
done
cat
echo "$SERVICE_RESULT"
"""


def test_last_command_has_nothing_that_systemd_changes_when_it_reads_it_back() -> None:
    given = ["", "50%", "a b", "it's", 'a "quote"', "back\\slash", "$HOME;x"]
    text = attended.lasting(["/bin/sh", "-c", _SCRIPT, "end", *given])
    assert re.fullmatch(r"[\w/+=| \"-]+", text), text
    ended = subprocess.run(
        shlex.split(text),
        input="not for it",
        env={"SERVICE_RESULT": "success", "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    words = [f"<{word}>" if "%" in word else f"[{word}]" for word in given]
    assert ended.stdout.splitlines() == [*words, "success"]
