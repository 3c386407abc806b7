"""Settings for all tests: how long an example takes is never what is tested."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quicksilver", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quicksilver")
