"""A library of one object: the tunnel of Figure 2.4."""

from quicksilver.live.components.infrastructure.tunnel import Tunnel

__all__ = ["Tunnel"]
