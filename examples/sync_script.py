"""The synchronous form, for scripts: no event loop, plain blocking calls."""

import sys

from quicksilver import sync

with sync.connect(sys.argv[1]) as listener, sync.connect(sys.argv[1]) as speaker:
    inbox = listener.join("jobs")
    outbox = speaker.open("jobs")
    for number in range(3):
        outbox.send(b"job %d" % number)
    speaker.flush()
    print("every member has all three")
    for message in inbox.messages(timeout=5):
        print(message.payload.decode())
        if message.sequence == 2:
            break
