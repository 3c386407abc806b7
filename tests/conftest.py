"""Settings for all tests, so that they mean the same on every machine and in every shell."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.kit.signals import give_children_default_signals

# How long an example takes is never what is tested.
settings.register_profile(
    "quicksilver", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quicksilver")

give_children_default_signals()

# Settings of the user's that change how commands print, or what they connect to.
for name in (
    *("COLUMNS", "LINES", "TERMINAL_WIDTH"),
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "GITHUB_ACTIONS"),
    *("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    "QUICKSILVER_GMS",
):
    os.environ.pop(name, None)

# Nor does any test find a GMS that happens to run on the same network, or is found by others.
os.environ["QUICKSILVER_DISCOVERY_PORT"] = "0"
