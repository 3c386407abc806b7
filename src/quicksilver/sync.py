"""The synchronous form: ``quicksilver.sync.connect`` for scripts and threads."""

from quicksilver.node.sync import Group, Node, Stream, connect

__all__ = ["Group", "Node", "Stream", "connect"]


def __dir__() -> list[str]:
    return list(__all__)
