"""Figures about one receiver that has trouble (4.3.3)."""

from __future__ import annotations

from quicksilver.spark.report.figures import Distribution, Figure

FIGURES: tuple[Figure, ...] = (
    *(
        Figure(
            name=f"{experiment}-throughput",
            experiment=experiment,
            paper="4.31",
            title=title,
            x="nodes",
            y="messages_per_second",
            x_label="nodes",
            y_label="thousand messages/s",
            claim=claim,
            scale=1e-3,
            is_log=True,
        )
        for experiment, title, claim in (
            (
                "sleep",
                "One receiver sleeps 0.5 s every 5 s",
                "With one sleeping receiver throughput falls from about 80 nodes on.",
            ),
            (
                "loss",
                "One receiver loses all packets for 10 ms every second",
                "With bursty loss at one receiver throughput falls sharply beyond 160 nodes.",
            ),
        )
    ),
    *(
        figure
        for experiment, paper, what in (
            ("sleep", "4.35", "sleeps 0.5 s every 5 s"),
            ("loss", "4.36", "loses all packets for 10 ms every second"),
        )
        for figure in (
            Figure(
                name=f"{experiment}-lost",
                experiment=experiment,
                paper="4.32",
                title="Packets lost by the perturbed receiver",
                x="nodes",
                y="disturbed_loss_percent",
                x_label="nodes",
                y_label="% of packets",
                claim="Loss at the perturbed node is 2 to 3 % (sleep), 2 to 5 % (loss), and does "
                "not explain how throughput falls.",
                is_log=True,
            ),
            Figure(
                name=f"{experiment}-memory",
                experiment=experiment,
                paper="4.33",
                title="Memory of the perturbed receiver",
                x="nodes",
                y="disturbed_memory_bytes_mean",
                label="the perturbed one",
                more=(("receiver_memory_bytes_mean", "the others"),),
                x_label="nodes",
                y_label="packets held, MB",
                claim="Memory of receivers falls up to 80 nodes, because caching is shared, and "
                "does not explain how throughput falls.",
                scale=1e-6,
                is_log=True,
            ),
            Figure(
                name=f"{experiment}-pending",
                experiment=experiment,
                paper="4.34",
                title="Messages that wait for acknowledgement",
                x="nodes",
                y="pending_messages_mean",
                x_label="nodes",
                y_label="messages pending",
                claim="Pending messages start at a higher level than undisturbed and grow 6 to 8 "
                "times faster; throughput follows them.",
                is_log=True,
            ),
            Figure(
                name=f"{experiment}-recovery",
                experiment=experiment,
                paper=paper,
                title=f"Tokens and repairs while one {what}",
                x="nodes",
                y="token_rtt_ms",
                label="token",
                more=(("repair_ms_mean", "repair"), ("ack_ms_mean", "acknowledgement")),
                x_label="nodes",
                y_label="ms",
                claim="The token takes twice as long as undisturbed; a repair needs 2 token rounds "
                "and cleaning up another one.",
                is_log=True,
            ),
        )
    ),
)

DISTRIBUTIONS: tuple[Distribution, ...] = (
    *(
        Distribution(
            name=f"{experiment}-alarms-{role}s",
            experiment=experiment,
            paper=paper,
            title=f"Latest alarm of each second, {role}s",
            bins=f"{role}_alarm_bins",
            by="perturbed",
            x_label="ms",
            claim=claim,
        )
        for experiment in ("sleep", "loss")
        for role, paper, claim in (
            (
                "receiver",
                "4.37",
                "Alarms fire at most 12 to 14 ms late undisturbed, 130 to 140 ms perturbed.",
            ),
            (
                "sender",
                "4.38",
                "Alarms fire at most 0.7 s late undisturbed, 1.3 s perturbed.",
            ),
        )
    ),
)
