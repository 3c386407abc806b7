"""The type calculus of live objects: types as data, compared by structure.

``model`` is the data; ``build`` makes it by hand, ``reflect`` reads it off Python
classes, ``encoding`` writes and parses it; ``subtyping`` decides the relations of
the dissertation and says why one does not hold; ``parameters`` instantiates
templates; ``convert`` carries values between classes of equal structure.
"""
