"""Live distributed objects: protocol instances as typed components (dissertation, chapter 2).

Types are data (``types``), constraints live in pluggable formalisms
(``formalisms``), references are passive, portable descriptions of objects
(``references``), and dereferencing one makes proxies that meet only through
their endpoints.
"""
