"""A text that several processes edit at once: what you type is appended, the text is printed.

    quicksilver gms
    python examples/live/shared_text.py 127.0.0.1:7401

Run it in several windows. The object is described by ``shared-text.liveobject``; any
other reference to a text does as well, as a second argument.
"""

import asyncio
import sys
from pathlib import Path

from quicksilver import live

REFERENCE = Path(__file__).with_name("shared-text.liveobject")


async def main(gms: str, reference: Path) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    text = ""

    def show(changed: str) -> None:
        nonlocal text
        text = changed
        print("--\n" + text, flush=True)

    async with live.platform(gms) as platform, await platform.open(reference) as note:
        user = note.attach("Text", {"changed": show})
        while line := await lines.readline():
            user.port.edit(len(text), 0, line.decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else REFERENCE))
