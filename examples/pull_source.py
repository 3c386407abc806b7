"""The pull form: the application is asked for a message just before it is sent.

Nothing waits in a queue and grows old: a sensor that is asked late answers with
its newest reading.
"""

import itertools
import sys

from quicksilver import sync

with sync.connect(sys.argv[1]) as display, sync.connect(sys.argv[1]) as sensor:
    shown = display.join("readings")
    readings = sensor.open("readings")
    counter = itertools.count()

    def newest() -> bytes | None:
        """Return the reading of this moment; None ends the source."""
        number = next(counter)
        return b"reading %d" % number if number < 5 else None

    readings.send_from(newest)
    for message in shown.messages(timeout=5):
        print(message.payload.decode())
        if message.sequence == 4:
            break
