"""Whole clusters in virtual time: built, disturbed, watched and judged.

``cluster`` puts real engines and the real membership service on simulated hosts;
``faults`` is all that can go wrong; ``checks`` holds one property a file; a
``trial`` draws a cluster and its misfortunes from one seed, runs it, and says
what was violated. See docs/simulation.md.
"""
