"""What people may say about members that do not keep up."""

from __future__ import annotations

import pytest

import quicksilver
from quicksilver.multicast.sending.behind import FORMS
from quicksilver.node.checks import check_behind
from quicksilver.node.errors import OptionError


def test_choices_are_values_or_text() -> None:
    """The values are part of the public names; text is for settings and commands."""
    assert check_behind(quicksilver.Drop()) == check_behind("drop")
    assert check_behind(quicksilver.Keep(1 << 20)) == check_behind("keep:1MiB")
    assert check_behind(quicksilver.Wait()) == check_behind("wait")
    assert check_behind(None) is None


def test_a_mistake_is_one_line_that_names_the_choices() -> None:
    with pytest.raises(OptionError) as raised:
        check_behind("blok")
    assert str(raised.value).startswith("behind: 'blok'")
    assert FORMS in str(raised.value)
    assert "\n" not in str(raised.value)
