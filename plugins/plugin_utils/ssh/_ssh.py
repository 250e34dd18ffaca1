# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's connection to libvirt on a hypervisor, from Ansible's own variables.

Over SSH libvirt connects through a program (its ``ext`` transport): a small script that runs
``ssh`` with exactly the options that Ansible would use (port, key, jump host, known hosts), and
becomes root on the other side if Ansible would. So any user who can run a module there can read
there.
"""

from __future__ import annotations

import contextlib
import shlex
import typing as t
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

from ansible import context
from ansible.errors import AnsibleError
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _control_path

# libvirt 6.8 and newer has virt-ssh-helper; otherwise netcat works, if it supports Unix sockets
_REMOTE = """\
if command -v virt-ssh-helper >/dev/null 2>&1; then exec {become}virt-ssh-helper {uri}; fi
for socket in /run/libvirt/virtqemud-sock /run/libvirt/libvirt-sock; do
  if {become}test -S "$socket"; then exec {become}nc -U "$socket"; fi
done
echo "no virt-ssh-helper and no libvirt socket there" >&2; exit 1
"""


# For Python: read and run a program that follows its length on a line, and nothing after it
FROM_INPUT = "import sys; r = sys.stdin.buffer; exec(r.read(int(r.readline())).decode())"

# Options of Ansible's ssh connection plugin that determine the connection to a host
OPTIONS = (
    "host",
    "host_key_checking",
    "port",
    "private_key_file",
    "remote_user",
    "ssh_common_args",
    "ssh_executable",
    "ssh_extra_args",
)


@dataclass(frozen=True)
class Ssh:
    """What Ansible's ssh connection would use; ``arguments`` are passed to ssh as they are.

    ``password`` is the one that sudo there asks for, None if it asks for none.
    """

    host: str
    user: str | None = None
    port: int | None = None
    key_file: str | None = None
    arguments: tuple[str, ...] = ()
    become: bool = False
    password: str | None = field(default=None, repr=False)
    timeout: int = 10
    executable: str = "ssh"
    python: str = "python3"


@dataclass(frozen=True)
class Reached:
    """A hypervisor as the controller reaches it.

    ``uri`` is what libvirt opens; ``ssh`` is the login to the machine itself, None if unknown;
    ``local`` is True if it is this machine.
    """

    uri: str
    ssh: Ssh | None = None
    local: bool = False


# Variables that determine the connection to a hypervisor, besides ansible_ssh_...
_FOR_CONNECTING = frozenset(
    {
        "ansible_become",
        *_become.PASSWORDS,
        "ansible_connection",
        "ansible_host",
        "ansible_host_key_checking",
        "ansible_port",
        "ansible_private_key_file",
        "ansible_user",
        "virt_become",
        "virt_inventory_uri",
    }
)


def is_for_connecting(variable: str) -> bool:
    """Whether a variable of this name determines the connection to a hypervisor."""
    return variable.startswith("ansible_ssh_") or variable in _FOR_CONNECTING


def connection_variables(hostvars: t.Mapping[str, object]) -> dict[str, object]:
    """The variables that determine the connection to a host, as plain data.

    A password that cannot be templated is left out: sudo may ask for none.
    """
    variables: dict[str, object] = {}
    for key in map(str, hostvars):
        if is_for_connecting(key):
            with contextlib.suppress(*((AnsibleError,) if key in _become.PASSWORDS else ())):
                variables[key] = to_plain(hostvars[key])
    return variables


def ansible_options(variables: t.Mapping[str, object]) -> dict[str, object]:
    """OPTIONS of Ansible for a host: from its variables, the command line, configuration."""
    plugin = connection_loader.get("ssh", PlayContext())
    plugin.set_options(var_options=dict(variables))
    options: dict[str, object] = {}
    for name in OPTIONS:
        options[name], origin = plugin.get_option_and_origin(name, hostvars=dict(variables))
        if not str(origin).startswith("var:") and context.CLIARGS.get(name) is not None:
            options[name] = context.CLIARGS[name]
    return options


_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args", "sftp_extra_args", "scp_extra_args")
# The variables that configured_args reads
ARGUMENTS = tuple(f"ansible_{name}" for name in (*_ARGUMENTS, "control_path", "control_path_dir"))


@dataclass(frozen=True)
class Arguments:
    """Ansible's arguments for ssh, and its settings for control sockets.

    ``by_variable`` has the arguments by the variable that sets them, in the order in which ssh gets
    them; the last ones are for one of ssh's programs each.
    """

    by_variable: t.Mapping[str, str] = field(default_factory=dict)
    control_path: str = ""
    control_path_dir: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(self.by_variable.values())


def configured_args(variables: t.Mapping[str, object]) -> Arguments:
    """ARGUMENTS from variables, the command line, environment and configuration.

    Raises FleetVirtError for arguments that a shell could not split.
    """
    plugin = connection_loader.get("ssh", PlayContext())
    plugin.set_options(var_options=dict(variables))
    arguments = {}
    for variable in ARGUMENTS:
        name = variable.partition("_")[2]
        value, origin = plugin.get_option_and_origin(name, hostvars=dict(variables))
        if not str(origin).startswith("var:"):
            value = context.CLIARGS.get(name) or value
        arguments[variable] = str(value or "")
        try:
            shlex.split(arguments[variable])
        except ValueError as error:
            raise FleetVirtError(
                f"{name}: {arguments[variable]!r} is not a valid argument list for ssh: {error}"
            ) from None
    paths = [arguments.pop(f"ansible_{name}") for name in ("control_path", "control_path_dir")]
    return Arguments(arguments, *paths)


def from_options(
    options: t.Mapping[str, object], variables: t.Mapping[str, object], timeout: float
) -> Ssh:
    """The Ssh for a host with these OPTIONS and (templated) variables.

    It becomes root if ``virt_become`` or ``ansible_become`` is true, and if neither is set and the
    user is not root.
    """
    arguments: list[str] = []
    for key in ("ssh_common_args", "ssh_extra_args"):
        arguments += shlex.split(str(options.get(key) or ""))
    if not _true(options.get("host_key_checking", True)):
        arguments += ["-o", "StrictHostKeyChecking=no"]
    user, port, key_file = (options.get(key) for key in ("remote_user", "port", "private_key_file"))
    become = variables.get("virt_become", variables.get("ansible_become"))
    python = str(variables.get("ansible_python_interpreter") or "")
    return Ssh(
        host=str(options["host"]),
        user=None if user is None else str(user),
        port=None if port is None else int(str(port)),
        key_file=str(Path(str(key_file)).expanduser()) if key_file else None,
        arguments=tuple(arguments),
        become=user != "root" if become is None else _true(become),
        password=_become.password_of(variables),
        timeout=max(1, int(timeout)),
        executable=str(options.get("ssh_executable") or "ssh"),
        python=python if python.startswith("/") else "python3",
    )


def _true(value: object) -> bool:
    return str(value).lower() in ("true", "yes", "1", "on", "y", "t")


def _command(ssh: Ssh) -> list[str]:
    """``ssh`` with every option, before the host's name."""
    command = [ssh.executable, "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={ssh.timeout}"]
    command += ["-o", f"ServerAliveInterval={ssh.timeout}", "-o", "ServerAliveCountMax=1"]
    # a control master outlives this process and hangs on a host that is cut off
    # (-S, since Ansible reads the word ControlPath anywhere as the path of its own connection)
    # both take effect whatever the user's arguments say
    arguments = _control_path.without_path(_control_path.without_socket(ssh.arguments)[0])[0]
    command += ["-o", "ControlMaster=no", "-S", "none", *arguments]
    if ssh.key_file:
        command += ["-i", ssh.key_file]
    if ssh.user:
        command += ["-l", ssh.user]
    if ssh.port:
        command += ["-p", str(ssh.port)]
    return command


def script(ssh: Ssh, uri: str) -> str:
    """The shell script that connects its standard input and output to libvirt there."""
    become = "sudo -n " if ssh.become and ssh.password is None else ""
    remote = _REMOTE.format(become=become, uri=shlex.quote(uri))
    command = _as_root(ssh, remote, f"sh -c {shlex.quote(remote)}")
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"


def python_command(ssh: Ssh) -> list[str]:
    """The command that runs a Python program there, which it reads from its standard input."""
    return _python(ssh, "-")


def program_command(ssh: Ssh) -> list[str]:
    """The same for a program that keeps reading its input; FROM_INPUT loads it."""
    return _python(ssh, f"-c {shlex.quote(FROM_INPUT)}")


def _python(ssh: Ssh, arguments: str) -> list[str]:
    command = f"{shlex.quote(ssh.python)} {arguments}"
    return _as_root(ssh, f"exec {command}", f"{'sudo -n ' if ssh.become else ''}{command}")


def _as_root(ssh: Ssh, with_password: str, without: str) -> list[str]:
    """The command that runs a shell command there: the first one as root, with the password that
    sudo asks for, or the second one if there is none."""
    if not ssh.become or ssh.password is None:
        return [*_command(ssh), "--", ssh.host, without]
    return _become.here(
        [*_command(ssh), "--", ssh.host, _become.there(with_password)], ssh.password
    )


def proxy_command(ssh: Ssh) -> str:
    """ssh's ProxyCommand to reach another machine through this one.

    ssh replaces ``%h`` and ``%p``, and gives the rest to a shell.
    """
    words = [word.replace("%", "%%") for word in (*_command(ssh), "-W")]
    host = ssh.host.replace("%", "%%")
    return f"{shlex.join(words)} '[%h]:%p' -- {shlex.quote(host)}"


def login(
    name: str, hostvars: t.Mapping[str, object], timeout: float, password: str | None = None
) -> Reached:
    """The login to the machine of inventory host ``name``, independent of libvirt's connection.

    ``password`` is for sudo there if its variables have none.
    """
    variables = connection_variables(hostvars)
    if variables.get("ansible_connection") in ("local", "ansible.builtin.local"):
        return Reached("", local=True)
    options = ansible_options({**variables, "inventory_hostname": name})
    ssh = from_options(options, variables, timeout)
    return Reached("", ssh if ssh.password else replace(ssh, password=password))


def uri_for(
    name: str,
    variables: t.Mapping[str, object],
    uri: str,
    timeout: float,
    folder: Path,
    number: int,
) -> str:
    """The URI of :func:`reach`."""
    return reach(name, variables, uri, timeout, folder, number).uri


def reach(
    name: str,
    variables: t.Mapping[str, object],
    uri: str,
    timeout: float,
    folder: Path,
    number: int,
) -> Reached:
    """The controller's connection to ``uri`` of inventory host ``name``.

    ``virt_inventory_uri`` of the host takes precedence. A URI without a host is one of the
    hypervisor: with ``+tls`` or ``+tcp`` its address is inserted; without a transport, or with
    ``+ssh``, a script is written into ``folder`` (distinguished by ``number``) that uses SSH as
    Ansible would, unless Ansible's connection is local.
    """
    own = variables.get("virt_inventory_uri")
    wanted = str(uri if own is None else own)
    parts = urlsplit(wanted)
    driver, _dummy, transport = parts.scheme.partition("+")
    local = variables.get("ansible_connection") in ("local", "ansible.builtin.local")
    if driver == "test" or (own is not None and not transport and not parts.netloc):
        return Reached(wanted, local=local or driver != "test")
    if local and not transport:
        return Reached(wanted, local=True)
    options = ansible_options({**variables, "inventory_hostname": name})
    ssh = None if local else from_options(options, variables, timeout)
    if parts.netloc or transport in ("unix", "ext"):
        return Reached(wanted, ssh, local)
    if transport in ("tls", "tcp"):
        address = str(options["host"])
        netloc = f"[{address}]" if ":" in address else quote(address)
        return Reached(urlunsplit(parts._replace(netloc=netloc)), ssh, local)
    plain = f"{driver}://{parts.path}"  # a query is for libvirt's own transports
    if ssh is None:
        return Reached(plain, local=True)
    return Reached(write_script(ssh, plain, folder, number), ssh)


def from_uri(uri: str, timeout: float) -> Reached:
    """The connection to the hypervisor of a standalone URI, over SSH if it says so."""
    parts = urlsplit(uri)
    driver, _dummy, transport = parts.scheme.partition("+")
    if driver == "test" or not parts.netloc:
        return Reached(uri, local=driver != "test" and transport in ("", "unix"))
    if transport not in ("ssh", "libssh", "libssh2"):
        return Reached(uri)
    query = parse_qs(parts.query)
    key_file = query.get("keyfile", [None])[0]
    # libvirt's own parameters to disable host key checks, and for the known hosts file
    unchecked = query.get("no_verify", ["0"])[0] != "0"
    arguments = ["-o", "StrictHostKeyChecking=no"] if unchecked else []
    known = query.get("known_hosts", [None])[0]
    arguments += ["-o", f"UserKnownHostsFile={known}"] if known else []
    user = unquote(parts.username) if parts.username else None
    ssh = Ssh(
        host=parts.hostname or "",
        user=user,
        port=parts.port,
        key_file=key_file,
        arguments=tuple(arguments),
        become=user not in (None, "root"),
        timeout=max(1, int(timeout)),
    )
    return Reached(uri, ssh)


def write_script(ssh: Ssh, uri: str, folder: Path, number: int) -> str:
    """Write the script into ``folder``; returns the libvirt URI that connects through it."""
    path = folder / f"hypervisor{number}"
    path.touch(mode=0o700)
    path.write_text(script(ssh, uri), encoding="utf-8")
    scheme, _dummy, rest = uri.partition("://")
    return f"{scheme}+ext://{rest}?command={quote(str(path), safe='/')}"
