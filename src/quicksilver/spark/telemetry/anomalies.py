"""What an operator looks for, as SQL over the gold tables.

A healthy run has no row in these views; a sick one has rows that name who is to blame.
Thresholds are in the texts, next to what they are compared with: always something of the
same run, and a floor below which a difference hurts nobody. A median of two is the lower.
"""

from __future__ import annotations

from typing import Final

from quicksilver.stdx.bins import BINS_AN_OCTAVE, FLOOR_US

EDGE_MS = f"pow(2, (bin + 1) / {BINS_AN_OCTAVE}D) * {FLOOR_US / 1e3}"
"""The upper edge of a row's bin, in SQL."""

ACK_WAITS: Final = """
    with gaps as (
      select run, region, view, node, second, slowest,
             at - lag(at) over (partition by run, region, view, node order by at) as gap_s
      from trace where kind = 'AckReceived' and slowest > 0),
    usual as (
      select run, region, percentile_approx(gap_s, 0.5) as usual_s from gaps group by run, region)
    select run, region, node, second, slowest, gap_s - usual_s as waited_s
    from gaps join usual using (run, region) where gap_s > 2 * usual_s"""
"""Acknowledgements that a sender waited for longer than usual, by how much, and the node
that the acknowledgement names as the slowest: of the others the name means little."""

SLOW_RECEIVERS: Final = f"""
    with delays as (
      select run, region, node, sum(packets * {EDGE_MS}) / sum(packets) as delay_ms
      from latencies group by run, region, node),
    losses as (
      select run, region, node, sum(lost_packets) as lost_packets
      from region_seconds group by run, region, node),
    alarms as (
      select run, node, avg(alarm_delay_ms) as alarm_delay_ms from node_seconds group by run, node),
    lags as (
      select run, region, node, delay_ms, alarm_delay_ms,
             coalesce(lost_packets, 0) as lost_packets
      from delays left join losses using (run, region, node) left join alarms using (run, node)),
    peers as (
      select *, percentile_approx(delay_ms, 0.5) over (partition by run, region) as peers_delay_ms,
             percentile_approx(lost_packets, 0.5) over (partition by run, region) as peers_lost,
             percentile_approx(alarm_delay_ms, 0.5) over (partition by run, region)
               as peers_alarm_delay_ms
      from lags),
    named as (
      select run, region, slowest as node, count(*) as acks, sum(waited_s) as waited_s
      from ack_waits group by run, region, slowest),
    shares as (
      select *, waited_s / sum(waited_s) over (partition by run, region) as share from named)
    select run, region, node, acks, waited_s, round(share, 3) as share, delay_ms, peers_delay_ms,
           lost_packets, peers_lost, alarm_delay_ms, peers_alarm_delay_ms
    from shares join peers using (run, region, node)
    where acks >= 3 and share >= 0.5
      and (delay_ms >= 5 + 3 * peers_delay_ms or lost_packets >= 50 + 3 * peers_lost
           or alarm_delay_ms >= 5 + 3 * peers_alarm_delay_ms)"""  # noqa: S608  # our constants
"""Half or more of the time that a region's senders waited was for this node, and it is
behind its peers by what can be measured: delay of packets, losses, lateness of its own
alarms."""

CONVOYS: Final = f"""
    with usual as (
      select run, node, percentile_approx(delivered_per_s, 0.5) as usual_per_s,
             min(second) as first, max(second) as last
      from node_seconds where delivered_per_s > 0 group by run, node),
    receivers as (select distinct run, region, node from latencies),
    senders as (select distinct run, region, node from region_seconds where acks > 0),
    queues as (
      select run, region, second, sum(queued_bytes) as queued_bytes
      from node_seconds join senders using (run, node) group by run, region, second),
    counted as (
      select run, region, second, count(*) as receivers,
             count_if(delivered_per_s < usual_per_s / 4) as stalled
      from node_seconds join usual using (run, node) join receivers using (run, node)
      where usual_per_s >= 10 and second > first and second < last group by run, region, second),
    delays as (
      select c.run, c.region, c.second, l.node, sum(packets * {EDGE_MS}) / sum(packets) as delay_ms
      from counted c join latencies l
        on l.run = c.run and l.region = c.region and l.second between c.second and c.second + 3
      group by c.run, c.region, c.second, l.node),
    blamed as (
      select run, region, second, max_by(node, delay_ms) as waited_for
      from delays group by run, region, second)
    select run, region, second, receivers, stalled, queued_bytes, waited_for
    from counted join queues using (run, region, second)
      left join blamed using (run, region, second)
    where receivers >= 3 and stalled >= receivers / 2 and queued_bytes > 0"""  # noqa: S608
"""Seconds in which half or more of a region's receivers stood still, although a sender had
something to send, and the node whose packets took longest then and soon after: the others
had theirs when they were sent."""

OSCILLATION: Final = "select * from waves where is_oscillating"

PRIORITY_INVERSIONS: Final = """
    select run, node, second, inversion_ms, alarm_delay_ms, delivered_per_s, cpu_percent
    from node_seconds where inversion_ms >= 20"""
"""Seconds in which an alarm (a token to release, a region to probe) was due for 20 ms or
more while the core went on handling data, which has the lowest priority of all."""

HOT_REGIONS: Final = """
    with loads as (
      select run, region, sum(sampled_packets) as packets, sum(lost_packets) as lost_packets,
             sum(repairs_by_peers + repairs_by_sender) as repairs
      from region_seconds group by run, region),
    acked as (
      select run, region, avg(ack_ms) as ack_ms from ack_times group by run, region),
    senders as (select distinct run, region, node from region_seconds where acks > 0),
    queues as (
      select run, region, avg(queued_bytes) as queued_bytes
      from node_seconds join senders using (run, node) group by run, region),
    shares as (
      select *, packets / sum(packets) over (partition by run) as share,
             percentile_approx(packets, 0.5) over (partition by run) as usual_packets,
             percentile_approx(ack_ms, 0.5) over (partition by run) as usual_ack_ms,
             percentile_approx(queued_bytes, 0.5) over (partition by run) as usual_queued_bytes
      from loads left join acked using (run, region) left join queues using (run, region)
      where packets > 0)
    select run, region, packets, round(share, 3) as share, usual_packets, ack_ms, usual_ack_ms,
           queued_bytes, usual_queued_bytes, lost_packets, repairs
    from shares
    where packets >= 1000 and packets >= 3 * usual_packets
      and (ack_ms >= 5 + 2 * usual_ack_ms or lost_packets >= 0.01 * packets
           or queued_bytes >= 65536 + 2 * usual_queued_bytes)"""
"""Regions with three times the usual load, or more, that they do not bear well: packets take
long until all have them, are lost, or wait at their senders."""

FAILURES: Final = """
    select run, second, count(distinct node) as told_by, explode(flatten(collect_set(failed)))
           as failed
    from trace where kind = 'NodesFailed' group by run, second"""

PARTITIONS: Final = """
    with ended as (
      select run, failed as node, min(second) as second from failures group by run, failed),
    living as (
      select e.run, e.node, e.second, max(s.alarm_delay_ms) as alarm_delay_ms,
             max(s.second) as last, max_by(s.cpu_s, s.second) - min_by(s.cpu_s, s.second) as cpu_s
      from ended e join node_totals s
        on s.run = e.run and s.node = e.node and s.second between e.second - 10 and e.second + 60
      group by e.run, e.node, e.second),
    excluded as (
      select run, node, max(second) as second from trace where kind = 'WasExcluded'
      group by run, node),
    cut as (
      select l.run, l.node, l.second from living l left join excluded x using (run, node)
      where alarm_delay_ms < 1000 and (l.last > l.second or x.second >= l.second)),
    marked as (
      select *, case when second - lag(second) over (partition by run order by second) <= 2
                     then 0 else 1 end as begins from cut),
    numbered as (
      select *, sum(begins) over (partition by run order by second, node) as number from marked)
    select run, min(second) as second, count(*) as nodes_cut, sort_array(collect_set(node)) as nodes
    from numbered group by run, number"""
"""Nodes that were said to have failed at about the same time, and went on all the same:
they had not crashed and not stood still, only nobody heard them."""

VIEWS: Final[dict[str, str]] = {
    "ack_waits": ACK_WAITS,
    "slow_receivers": SLOW_RECEIVERS,
    "convoys": CONVOYS,
    "oscillation": OSCILLATION,
    "priority_inversions": PRIORITY_INVERSIONS,
    "hot_regions": HOT_REGIONS,
    "late_alarms": """
        select run, node, second, alarm_delay_ms, inversion_ms, cpu_percent
        from node_seconds where alarm_delay_ms >= 20""",
    "failures": FAILURES,
    "partitions": PARTITIONS,
}
"""In an order in which they can be made. ``ack_waits``, ``failures`` and ``late_alarms`` are
facts that may be harmless; the others are empty for a healthy run."""
