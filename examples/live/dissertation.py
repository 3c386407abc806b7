"""Write the references of the dissertation's chapter 2 so that they run on this machine.

Code 2.2 to 2.5 and Figure 2.4 name libraries at places that do not exist and
networks of others. This writes the same references with the libraries beside this
file, their hashes, and two multicast addresses for the two local networks:

    python examples/live/dissertation.py /tmp/chapter2

and prints what to run. Code is loaded because --allow-library says so.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = HERE / "library"
CONTROLLERS = {"tcp://192.168.0.100:60000": "x", "tcp://192.168.1.100:60000": "y"}
LANS = {"x": "udp://239.77.1.1:47601", "y": "udp://239.77.1.2:47602"}


def write_runnable(target: Path, lans: dict[str, str] | None = None) -> None:
    """Write the runnable references and both registries into a directory."""
    addresses = lans if lans is not None else LANS
    names = ["code-2-2-shared-text", "code-2-3-library", "code-2-4-hybrid", "code-2-5-platform"]
    for name in [*names, "figure-2-4-gateway"]:
        text = (HERE / f"{name}.liveobject").read_text(encoding="utf-8")
        _write(target / f"{name}.liveobject", text, addresses)
    for lan in addresses:
        text = (HERE / f"registry-lan-{lan}" / "MyPlatform.liveobject").read_text(encoding="utf-8")
        # Code 2.2 calls it QuickSilver, Code 2.4 MyPlatform: a node's folder of channels.
        for name in ("MyPlatform", "QuickSilver"):
            _write(target / f"registry-lan-{lan}" / f"{name}.liveobject", text, addresses)


def _write(path: Path, text: str, lans: dict[str, str]) -> None:
    def put_library(found: re.Match[str]) -> str:
        file = LIBRARY / f"{found[1]}.py"
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return f'<library url="{file.as_uri()}" sha256="{digest}"'

    text = re.sub(
        r'<library url="http://www\.mystuff\.com/(\w+)\.\w+" sha256="\w+"', put_library, text
    )
    for controller, lan in CONTROLLERS.items():
        text = text.replace(controller, lans[lan])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Write the files and say how to run them."""
    target = Path(sys.argv[1])
    write_runnable(target)
    allow = f"--allow-library {LIBRARY.as_uri()}/ --local"
    print("on LAN x, a shared text over datagrams and loss recovery, in two terminals:")
    text = f"{target}/code-2-2-shared-text.liveobject"
    print(f"  quicksilver object run {text} --registry {target}/registry-lan-x {allow}")
    print("the gateway, then one node on each LAN; say: send hello")
    print(f"  quicksilver object run {target}/figure-2-4-gateway.liveobject {allow}")
    for lan in LANS:
        hybrid = f"{target}/code-2-4-hybrid.liveobject --registry {target}/registry-lan-{lan}"
        print(f"  quicksilver object run {hybrid} {allow}")


if __name__ == "__main__":
    main()
