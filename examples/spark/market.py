"""What the quotes example sends; a module of its own, so that Spark's workers can import it."""

import msgspec


class Quote(msgspec.Struct):
    """The price of something at a moment, in seconds."""

    symbol: str
    price: float
    at: float


class Average(msgspec.Struct):
    """What Spark makes of the quotes of one second."""

    symbol: str
    second: int
    mean: float
    quotes: int
