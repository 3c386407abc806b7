"""Where the GMS is, for a node that was not told.

In this order: the environment variable ``QUICKSILVER_GMS``; ``gms = "host:port"`` in the file
``quicksilver.toml`` of the working folder or a folder above it, then of the user's
configuration; a GMS at the usual port of this machine; the host name ``quicksilver-gms``, by
whatever resolves names here; a question to the local network. The first that answers counts.

A file of a folder may be somebody else's work: the folders above the working folder may be open to
all users of the machine, as ``/tmp`` is. Such a file is refused rather than passed over: which
cluster a node is in is never left to chance.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from quicksilver.net.discovery import DISCOVERY_PORT, discover
from quicksilver.node.errors import ConfigFileError, GmsNotFoundError, SeveralGmsError
from quicksilver.node.options import parse_controller_path, parse_gms_address
from quicksilver.wire.ids import Address

GMS_PORT = 7401
GMS_HOST_NAME = "quicksilver-gms"
VARIABLE = "QUICKSILVER_GMS"
PORT_VARIABLE = "QUICKSILVER_DISCOVERY_PORT"
FILE_NAME = "quicksilver.toml"
FILE_BYTES_MAX = 1 << 20

PROBE_S = 0.5
LOOKUP_S = 1.0


def find_gms() -> str:
    """Return the GMS as ``host:port``.

    Raises:
        GmsNotFoundError: nothing says where it is; the error lists what was tried.
        SeveralGmsError: more than one answered on the local network.
        ConfigFileError, AddressError: what was found makes no sense.
    """
    configured = find_configured()
    return configured if configured is not None else find_running()


def find_configured(
    environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str | None:
    """Return what the environment or a file says, or None."""
    variables = os.environ if environment is None else environment
    text = variables.get(VARIABLE, "")
    if text:
        return _checked(text)
    for path in folder_files(folder):
        found = _read(path, is_checked=True)
        if found is not None:
            return found
    return _read(user_file(variables), is_checked=False)


def folder_files(folder: Path | None = None) -> Iterator[Path]:
    """Yield the files of the working folder and those above it, the nearest first."""
    try:
        here = Path.cwd() if folder is None else folder
    except OSError:  # it was deleted
        return
    for each in (here, *here.parents):
        yield each / FILE_NAME


def user_file(environment: Mapping[str, str]) -> Path:
    """Return the file of the user's configuration, whose place the environment says."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "quicksilver" / FILE_NAME


def find_running(discovery_port: int | None = None) -> str:
    """Return a GMS that answers on this machine, by name or on the local network."""
    port = _discovery_port() if discovery_port is None else discovery_port
    if _is_there(("127.0.0.1", GMS_PORT)):
        return f"127.0.0.1:{GMS_PORT}"
    address = _look_up(GMS_HOST_NAME)
    if address is not None:
        return f"{address}:{GMS_PORT}"
    found = discover(port=port) if port else []
    if len(found) > 1:
        raise SeveralGmsError(tuple(f"{host}:{number}" for host, number in found))
    if found:
        return f"{found[0][0]}:{found[0][1]}"
    raise GmsNotFoundError(
        (
            f"the variable {VARIABLE}",
            f"{FILE_NAME} here, above and in the user's configuration",
            f"127.0.0.1:{GMS_PORT}",
            f"the host name {GMS_HOST_NAME}",
            f"UDP port {port} of the local network" if port else "not the local network",
        )
    )


def _discovery_port() -> int:
    """Return the UDP port to ask at; 0: ask nobody."""
    text = os.environ.get(PORT_VARIABLE, "")
    is_port = text.isascii() and text.isdigit() and int(text) < 65536
    return int(text) if is_port else DISCOVERY_PORT


def _checked(text: str) -> str:
    if parse_controller_path(text) is None:
        parse_gms_address(text)
    return text


def find_owner_problem(status: os.stat_result, user: int) -> str | None:
    """Say whether somebody else than a user or the administrator may have written a file."""
    if status.st_uid not in (user, 0):
        return f"belongs to another user (number {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by every user of this machine"
    return None


def _read(path: Path, *, is_checked: bool) -> str | None:
    """Return the GMS that a file names; None if there is no file, or it names none.

    ``is_checked``: nobody else may have written it.
    """
    try:
        # Not to wait for somebody to write into a pipe that a stranger has put there.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return None
        problem = find_owner_problem(status, os.geteuid()) if is_checked else None
        if problem is not None:
            raise ConfigFileError(str(path), f"{problem}, so it is not followed", f"set {VARIABLE}")
        if not stat.S_ISREG(status.st_mode):
            raise ConfigFileError(str(path), "is no ordinary file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES_MAX:
        raise ConfigFileError(str(path), f"has more than {FILE_BYTES_MAX} bytes")
    import tomllib  # where there is a file: it takes milliseconds at the start

    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also of its numbers, dates and nesting
        raise ConfigFileError(str(path), f"is not TOML ({error})") from None
    found = table.get("gms")
    if found is None:
        return None
    if not isinstance(found, str):
        raise ConfigFileError(str(path), 'must say gms = "host:port"')
    return _checked(found)


def _is_there(address: Address) -> bool:
    try:
        with socket.create_connection(address, PROBE_S):
            return True
    except OSError:
        return False


def _look_up(name: str) -> str | None:
    """Return the address of a host name; resolvers that take long are not waited for."""
    found: list[str] = []

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(name, GMS_PORT, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return
        found.extend(str(info[4][0]) for info in infos)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(LOOKUP_S)
    return found[0] if found else None
