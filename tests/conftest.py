"""Settings for all tests, so that they mean the same on every machine."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.signals import give_children_default_signals

# How long an example takes is never what is tested.
settings.register_profile("quicksilver", deadline=None)
settings.load_profile("quicksilver")

give_children_default_signals()
