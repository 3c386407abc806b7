"""References: passive, portable and complete descriptions of live objects (dissertation 2.1.5).

``model`` is the data, with ``values``, ``names`` and ``typenames`` for what it holds;
``builder`` makes it in Python, ``xml`` reads and writes ``.liveobject`` files, ``check``
finds what is wrong with a reference without running it, with the help of a
``catalogue`` of known types and primitives (``standard`` has those everybody has).
``substitute`` gives templates their arguments, ``display`` is for people, and
``library`` is the policy for code.
"""
