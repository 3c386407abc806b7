"""References: passive, portable and complete descriptions of live objects (dissertation 2.1.5).

``model`` is the data, ``builder`` makes it in Python, ``xml`` reads and writes
``.liveobject`` files, ``check`` finds what is wrong with a reference without
running it, with the help of a ``catalogue`` of known types and primitives.
``diff`` and ``draw`` are for people; ``library`` is the policy for code.
"""
