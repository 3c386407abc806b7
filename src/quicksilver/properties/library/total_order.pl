// Delivers messages to all nodes in one order.
//
// A node says Receive(m) when message m has come. When every node has m it gets a place in the
// order, and every node is told Deliver(position, m), by ascending positions. Positions may have
// gaps.
//
// How it agrees. The root proposes one message under a number. A node accepts at most one proposal
// of a number, and only of numbers above those it has accepted. What every node has accepted is
// agreed, and is made known as Decided; the next number is tried when all know that. So another
// root finds out from the nodes what the one before may have decided.
protocol TotalOrder {
  interface {
    callback Receive(int m);
    Deliver(int position, int m);
  }

  properties {
    // What a node has accepted; above nodes, what all have.
    set<pair<int, int>> Accepted;
    // The newest that a node has accepted; above nodes, that any has.
    set<pair<int, int>> Newest;
    // The number of it; above nodes, the number that all have come to.
    int Number = 0;
    // The number up to which a node knows what was decided; above nodes, up to which all do.
    int Learned = 0;
    set<pair<int, int>> Proposal;
    set<pair<int, int>> Decided;
    intset Received;
    intset Done;
    intset Pending;
  }

  bindings {
    on Receive(m) : Received += m; (B1)
    on update Decided(added D) : foreach (d in D) {
      Done += d.second;
      Deliver(d.first, d.second);
    } (B2)
  }

  rules {
    Proposal [mono] := parent.Proposal; (R1)
    Decided ∪= parent.Decided; (R2)
    // A node that has started again accepts what was decided without it.
    local.Accepted ∪= Decided; (R3)
    local.Accepted ∪= if max(Proposal).first > Number then Proposal else {}; (R4)
    local.Newest := {max(Accepted)}; (R5)
    local.Number max= max(Accepted).first; (R6)
    local.Learned max= max(Decided).first; (R7)
    Accepted := [mono, all, strict] children(∩).Accepted; (R8)
    Newest := [mono, all, strict] children(top(1)).Newest; (R9)
    Number := [mono, all, strict] children(min).Number; (R10)
    Learned := [mono, all, strict] children(min).Learned; (R11)
    Decided ∪= children(∪).Decided; (R12)
    Received := [mono, all, strict] children(∩).Received; (R13)
    Done := [mono, all, strict] children(∩).Done; (R14)
    global.Pending := Received \ Done; (R15)
    global.Decided ∪= {max(Accepted)}; (R16)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted ∧ (Learned < Number ∨ Pending = {}) then Newest
      else {<Number + 1, min(Pending)>}; (R17)
  }

  conditions {
    parent.Accepted ⊆ Accepted; (C1)
    parent.Number ≤ Number; (C2)
    parent.Learned ≤ Learned; (C3)
    parent.Received ⊆ Received; (C4)
    parent.Done ⊆ Done; (C5)
  }

  invariants {
    // Nobody has decided anything else, though some may know less.
    invariant ∀ a, b : a.Decided ⊆ b.Decided ∨ b.Decided ⊆ a.Decided; (I1)
    eventually ∀ a, b : a.Decided = b.Decided; (E1)
    // What is delivered anywhere, every node has received.
    invariant ∀ a, b : a.Done ⊆ b.Received; (I2)
    eventually global.Pending = {}; (E2)
  }
}
