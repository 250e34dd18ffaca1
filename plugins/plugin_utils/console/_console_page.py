# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a console, and its script: noVNC and xterm.js draw, and nothing of the guest's gets
anywhere else.

The guest's clipboard and desktop name are ignored. The page shows the server's messages.
"""

from __future__ import annotations

import html
from pathlib import Path

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="console.css">{more}
<script type="module" src="console.js"></script>
</head>
<body>
<p><b>{title}</b> <span id="status">connecting</span>{keys}</p>
<div id="screen"></div>
</body>
</html>
"""
STYLE = """\
html, body { height: 100%; margin: 0; background: #222; color: #ddd; font: 14px sans-serif; }
body { display: flex; flex-direction: column; }
p { margin: 4px 8px; }
#screen { flex: 1; min-height: 0; }
"""
SCREEN = """\
import RFB from './novnc/core/rfb.js';

const status = document.getElementById('status');
const url = new URL('websocket', location.href.replace(/^http/, 'ws'));
const answer = await fetch('password', {method: 'POST', cache: 'no-store'});
const password = (await answer.json()).password;
const rfb = new RFB(document.getElementById('screen'), url.href,
                    password === null ? {} : {credentials: {password}});
rfb.scaleViewport = true;
let told = false;
rfb.addEventListener('connect', () => { status.textContent = ''; rfb.focus(); });
rfb.addEventListener('securityfailure', (event) => {
  told = true;
  status.textContent = event.detail.reason || 'the password is wrong, or no longer valid';
});
rfb.addEventListener('credentialsrequired', () => {
  told = true;
  status.textContent = 'the screen asks for a password that this console does not have';
  rfb.disconnect();
});
rfb.addEventListener('disconnect', () => {
  if (!told) { status.textContent = 'closed; see where fleet.virt.console was started'; }
});
document.getElementById('keys').addEventListener('click', () => {
  rfb.sendCtrlAltDel();
  rfb.focus();
});
"""


_XTERM = """
<link rel="stylesheet" href="xterm/xterm.css">
<script src="xterm/xterm.js"></script>"""
_KEYS = """
<button id="keys" type="button">Ctrl-Alt-Del</button>"""
SERIAL = """\
const status = document.getElementById('status');
const url = new URL('websocket', location.href.replace(/^http/, 'ws'));
const terminal = new Terminal({cols: 80, rows: 24, scrollback: 5000});
terminal.open(document.getElementById('screen'));
const encoder = new TextEncoder();
let link = null;
let tries = 0;
const send = (text) => {
  if (link !== null && link.readyState === 1) { link.send(encoder.encode(text)); }
};
if (terminal.onData) { terminal.onData(send); } else { terminal.on('data', send); }
const connect = () => {
  const decoder = new TextDecoder();
  link = new WebSocket(url.href);
  link.binaryType = 'arraybuffer';
  link.onopen = () => { status.textContent = ''; terminal.focus(); };
  link.onmessage = (event) => {
    terminal.write(decoder.decode(new Uint8Array(event.data), {stream: true}));
  };
  link.onclose = (event) => {
    if (event.reason === BUSY && tries++ < 6) { setTimeout(connect, 500); return; }
    status.textContent = event.reason || 'closed; see where fleet.virt.console was started';
  };
};
connect();
"""


_LOADER = """
const loaded = {};
const load = (path) => {
  if (!loaded[path]) {
    const module = {exports: {}};
    loaded[path] = module;
    const require = (name) => load(new URL(name, 'file:///' + path).pathname.slice(1));
    modules[path](module.exports, require, module);
  }
  return loaded[path].exports;
};
self.Terminal = load('public/Terminal').Terminal;
"""


def xterm(folder: Path) -> str:
    """xterm.js as one script, from the files that Debian installs in ``folder`` for Node.js.

    The package for browsers (libjs-xterm in Debian 12 and 13) contains only one of these files.
    """
    made = ["const modules = {};"]
    for path in sorted(folder.rglob("*.js")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if not name.endswith(".test") and not name.startswith("addons/"):
            text = path.read_text(encoding="utf-8")
            made.append(f"modules['{name}'] = function (exports, require, module) {{\n{text}\n}};")
    return "\n".join([*made, _LOADER])


def page(title: str, *, serial: bool = False) -> str:
    """The page of the VM that ``title`` names."""
    more, keys = (_XTERM, "") if serial else ("", _KEYS)
    return _PAGE.format(title=html.escape(title), more=more, keys=keys)
