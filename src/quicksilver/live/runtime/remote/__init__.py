"""External endpoint references that cross the boundary of a process (2.1.4 C).

``publishing`` makes an endpoint reachable under a text that can be passed on,
``joining`` connects a matching endpoint of another process to it. ``frames`` are the
bytes between them, ``links`` the sockets.
"""
