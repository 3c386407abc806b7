"""The type calculus of live objects: types as data, compared by structure.

``model`` is the data; ``build`` makes it by hand, ``reflect``, ``interfaces`` and
``declare`` read it off Python classes, ``encoding`` writes and parses it, ``notation``
shows it. ``subtyping`` decides the relations of the dissertation and says why one does
not hold, with ``values`` for value types and ``implication`` for constraints;
``parameters`` instantiates templates. ``convert`` carries values between classes of
equal structure, ``bridges`` events between their interfaces.
"""
