"""Settings for all tests: how long an example takes is never what is tested."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("quicksilver", deadline=None)
settings.load_profile("quicksilver")
