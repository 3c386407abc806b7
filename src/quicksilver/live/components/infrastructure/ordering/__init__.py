"""Replicas of a checkpointed channel: one log that all members agree on, and its state.

Dissertation 6.2.1 asks for "total ordering and a simple form of state transfer,
whereby a newly activated proxy receives a checkpoint created on-demand from one of
the existing proxies, in a manner synchronized with the stream of updates". Below
is a channel that is FIFO from each sender and views that come from one service but
are not synchronized with the messages. The method:

- **A log.** One member, the leader, gives every update an index. Updates travel
  from their authors to everybody; the leader sends only their names in order. A
  member's coming and going are entries of the log too, so that all see them at
  the same place among the updates. Who lacks a piece of the log asks for it.
- **Stability.** Members say how far they have the log. What all have is stable
  and is forgotten; the leader orders no more than a window past that.
- **A new leader.** When the leader is not in the view any more, the member that
  joined the log earliest asks all others how far they are. Each answers, and from
  then on follows no earlier epoch. The new epoch begins after the longest log that
  any of them has. So what one survivor was given, all are given, in one order.
- **A newcomer** is given a place in the log first. When every member knows of it,
  the leader has its user make a checkpoint and sends it, in chunks; the newcomer
  goes on from that index. If the leader crashes, the next one sends another.
- **The first.** If nobody has a state, newcomers ask every node of the view, and
  the one with the newest state on disk, or else the least number, founds the log.

What is guaranteed: every user gets ``initialize`` first and then updates in an
order that is the same for all who stay in the views, each update once, each
author's in the order they were sent, as long as the author stays. The membership
service decides who that is: on the other side of a partition, a member may be
given updates that the views' side never sees; when it is back, it is initialized
again, and those of its own updates that the new state does not have are sent
again. With ``safe``, a user is given only what all members have, so that this
takes back nothing but what every member of the old view had.

``replica`` is the machine and brings inputs to its parts: ``succession`` decides which of
the ``states`` it is in, ``ledger`` is its copy of the log, ``attendance`` knows who is
there, ``leader`` and ``state_transfer`` do what a leader does. ``driver`` runs it in a
component.
"""
