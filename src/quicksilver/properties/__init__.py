"""The Properties Language: distributed protocols from a page of rules (dissertation, chapter 5).

A program names *properties*, variables of which every domain has an instance, nodes and the
whole system included. Rules say how values come about: gathered from the members of a
domain, copied from the domain around it, or computed from others. ``plan`` is a checked
program; ``run`` carries it out on the rounds of ``quicksilver.recovery``; ``verify`` tries
all that can happen to a few nodes.
"""
