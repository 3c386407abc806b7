"""The loss recovery object of Code 2.2 and 2.3: a reliable channel over an unreliable one.

Every message has its sender's number. A receiver delivers in order, keeps what is
early, and asks for what is missing (Nak); the sender sends it again. Receivers say
from time to time how far they are (Acks), and while somebody is behind, or may be,
the sender says what it has (State), so that the loss of the last message is noticed
too. When all who were heard lately have everything, nobody says anything.

There is no membership here, so what is sent counts for those who are listening: a
receiver begins with the first that it hears of a sender. If a receiver falls so far
behind that the sender has given up what it lacks (``buffer_bytes``), its proxy ends
with an error rather than leave something out.
"""

from __future__ import annotations

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.infrastructure.numbered_streams import (
    ACKS_MAX,
    Acks,
    Data,
    Incoming,
    Message,
    Nak,
    Outgoing,
    State,
    encode,
    parse,
)
from quicksilver.live.components.interfaces import (
    RELIABLE,
    UNRELIABLE,
    channel_below,
    channel_for_users,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, live_object
from quicksilver.stdx.errors import QuicksilverError

TICK_S = 0.05
STATE_S = 0.2
"""Between two messages about what a sender has …"""
LISTENER_S = 5.0
"""… which go on for this long after the last message, and count those heard in this time."""
PATIENCE_S = 0.02
"""Late is not lost: a hole is asked for after this."""
SENDERS_MAX = 1000


class FellBehindError(QuicksilverError):
    """A receiver lacks messages that nobody has any more."""

    def __init__(self, missing: int) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        return (
            f"{self.missing} messages were lost for good: their sender has given them up; "
            "open the channel again, and give it more buffer_bytes"
        )


@component("quicksilver.loss-recovery")
@live_object(title="LossRecovery")
class LossRecovery:
    """makes a reliable channel of an unreliable one, by numbers and requests to send again"""

    context: Context
    below = channel_below(UNRELIABLE)
    channel = channel_for_users(RELIABLE)

    def __init__(self, buffer_bytes: Given[int] = 16 << 20) -> None:
        if buffer_bytes < 1:
            raise ValueError(f"buffer_bytes must be positive, not {buffer_bytes}")
        self._buffer_bytes = buffer_bytes
        self._me = unique_number(self.context)
        self._out = Outgoing(buffer_bytes)
        self._in: dict[int, Incoming] = {}
        self._listeners: dict[int, tuple[int, float]] = {}
        """Who was heard: how far it is with us, and when."""
        self._sent_at = -1e9
        self._stated_at = -1e9
        self._to_ack: dict[int, None] = {}
        self._is_ticking = False
        self.bad_messages = 0
        """Messages that came in and were dropped."""

    # The user

    def channel_send(self, message: bytes) -> None:
        number = self._out.add(message)
        self._sent_at = self.context.now()
        self._say(Data(self._me, number, message))
        self._wake()
        # What the others get in our order, we do: and not before this call is over.
        self.context.post(lambda: self.channel.receive(message))

    @property
    def is_settled(self) -> bool:
        """Whether all who were heard have what was sent here; unheard ones had time to speak."""
        if not self._listeners:
            return self.context.now() - self._sent_at > 2 * STATE_S
        return all(number >= self._out.next for number, _ in self._listeners.values())

    # The channel below

    def below_receive(self, message: bytes) -> None:
        try:
            parsed = parse(message)
        except BadMessageError:
            self.bad_messages += 1
            return
        match parsed:
            case Data() if parsed.sender != self._me:
                self._take_data(parsed)
            case State() if parsed.sender != self._me:
                self._take_state(parsed)
            case Nak() if parsed.sender == self._me:
                self._take_nak(parsed)
            case Acks() if parsed.receiver != self._me:
                self._take_acks(parsed)
            case _:
                pass

    def _take_data(self, data: Data) -> None:
        stream = self._stream(data.sender, data.number)
        ready = stream.put(data.number, data.payload)
        self._note_missing(stream)
        self._to_ack[data.sender] = None
        self._wake()
        for payload in ready:
            self.channel.receive(payload)

    def _take_state(self, state: State) -> None:
        stream = self._stream(state.sender, state.next)
        if state.first > stream.next:
            raise FellBehindError(state.first - stream.next)
        stream.known = max(stream.known, state.next)
        self._note_missing(stream)
        self._to_ack[state.sender] = None
        self._wake()

    def _stream(self, sender: int, first: int) -> Incoming:
        stream = self._in.get(sender)
        if stream is None:
            if len(self._in) >= SENDERS_MAX:
                del self._in[next(iter(self._in))]
            stream = self._in[sender] = Incoming(first, self._buffer_bytes)
        return stream

    def _note_missing(self, stream: Incoming) -> None:
        if not stream.is_missing:
            stream.missing_since = None
        elif stream.missing_since is None:
            stream.missing_since = self.context.now()

    def _take_nak(self, nak: Nak) -> None:
        now = self.context.now()
        lowest = min((first for first, _ in nak.holes), default=self._out.next)
        self._hear(nak.receiver, lowest)
        for first, last in nak.holes:
            for number, payload in self._out.find(first, last, now):
                self._say(Data(self._me, number, payload))
        if lowest < self._out.first:
            self._say_state()
        self._wake()

    def _take_acks(self, acks: Acks) -> None:
        for sender, next_number in acks.next:
            if sender == self._me:
                self._hear(acks.receiver, next_number)
                self._trim()

    def _hear(self, listener: int, next_number: int) -> None:
        if len(self._listeners) < SENDERS_MAX or listener in self._listeners:
            self._listeners[listener] = (next_number, self.context.now())

    def _trim(self) -> None:
        """Give up what all have who were heard lately."""
        slowest = min(number for number, _ in self._listeners.values())
        self._out.forget_before(slowest)

    # Time

    def _wake(self) -> None:
        if not self._is_ticking:
            self._is_ticking = True
            self.context.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        now = self.context.now()
        self._ask(now)
        self._say_acks()
        if self._has_listeners_behind(now):
            if now - self._stated_at >= STATE_S:
                self._stated_at = now
                self._say_state()
            self._wake()
        elif any(stream.is_missing for stream in self._in.values()):
            self._wake()

    def _ask(self, now: float) -> None:
        for sender, stream in self._in.items():
            since = stream.missing_since
            if since is not None and now - since >= PATIENCE_S:
                self._say(Nak(self._me, sender, stream.holes()))

    def _say_acks(self) -> None:
        senders, self._to_ack = list(self._to_ack), {}
        for at in range(0, len(senders), ACKS_MAX):
            some = [one for one in senders[at : at + ACKS_MAX] if one in self._in]
            self._say(Acks(self._me, [(one, self._in[one].next) for one in some]))

    def _has_listeners_behind(self, now: float) -> bool:
        """Whether somebody may lack something of ours."""
        gone = [one for one, (_, at) in self._listeners.items() if now - at > LISTENER_S]
        for one in gone:
            if now - self._sent_at > LISTENER_S:
                del self._listeners[one]
        if not self._listeners:
            return now - self._sent_at <= LISTENER_S
        return any(number < self._out.next for number, _ in self._listeners.values())

    def _say_state(self) -> None:
        self._say(State(self._me, self._out.first, self._out.next))

    def _say(self, message: Message) -> None:
        self.below.send(encode(message))
