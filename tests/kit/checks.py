"""The judgement of all checks on a cluster that was left alone."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.trials.checks.quiescence import SILENT_S
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Violation
from tests.kit.cluster import inbox


def check_all(cluster: Cluster, *, excused: Callable[[Violation], bool] | None = None) -> None:
    """Nothing is said for ten seconds, and nothing is wrong or left at the end of them.

    Old views of which nobody says anything may take longer to be forgotten.
    """
    cluster.watching.on_healed()
    cluster.watching.on_look()
    config = cluster.config
    kept_s = config.retire_s + config.patience_s(cluster.gms.settings.failure_timeout_s)
    cluster.run(max(SILENT_S, kept_s) + 0.1)
    cluster.watching.on_look()
    cluster.watching.on_settled()
    assert not [v for v in cluster.violations() if excused is None or not excused(v)]
    check_sequences(cluster)


def check_sequences(cluster: Cluster) -> None:
    """Messages are numbered from 0 in their group, unless their sender was excluded.

    ``content`` allows any beginning, because a sender that comes back under a new
    identifier may have messages left.
    """
    lives = {(life.index, life.life): life for life in cluster.lives}
    for receiver in cluster.lives:
        for message in inbox(receiver):
            mark = parse_payload(message.payload)
            assert mark is not None
            if not lives[mark.node, mark.life].exclusions:
                assert message.sequence == mark.number, f"{receiver}: {message.payload[:40]!r}"
