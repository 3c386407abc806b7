// Chooses a leader among the nodes, and another one when it crashes.
//
// Every node is told Leader(term, who) of each election. Terms only go up, and nobody is told of
// two leaders in one term.
//
// How it agrees. The root proposes one leader under a number. A node accepts at most one proposal
// of a number, and only of numbers above those it has accepted. What every node has accepted is
// agreed, and is made known as Decided; the next number is tried when all know that. So another
// root finds out from the nodes what the one before may have decided.
protocol LeaderElection {
  interface {
    Leader(int term, address who);
  }

  properties {
    // What a node has accepted; above nodes, what all have.
    set<pair<int, address>> Accepted;
    // The newest that a node has accepted; above nodes, that any has.
    set<pair<int, address>> Newest;
    // The number of it; above nodes, the number that all have come to.
    int Number = 0;
    // The number up to which a node knows what was decided; above nodes, up to which all do.
    int Learned = 0;
    set<pair<int, address>> Proposal;
    set<pair<int, address>> Decided;
    address Best;
    bool Leads = false;
  }

  bindings {
    on update Decided(added D) : foreach (d in D) Leader(d.first, d.second); (B1)
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
    local.Best := self; (R13)
    Best := [all, strict] children(min).Best; (R14)
    local.Leads := Accepted ≠ {} ∧ max(Accepted).second = self; (R15)
    Leads := [mono, all, strict] children(∨).Leads; (R16)
    global.Decided ∪= {max(Accepted)}; (R17)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted ∧ (Learned < Number ∨ Leads) then Newest
      else {<Number + 1, Best>}; (R18)
  }

  conditions {
    parent.Accepted ⊆ Accepted; (C1)
    parent.Number ≤ Number; (C2)
    parent.Learned ≤ Learned; (C3)
  }

  invariants {
    // Nobody has decided anything else, though some may know less.
    invariant ∀ a, b : a.Decided ⊆ b.Decided ∨ b.Decided ⊆ a.Decided; (I1)
    eventually ∀ a, b : a.Decided = b.Decided; (E1)
    // No term has two leaders.
    invariant ∀ a, b : max(a.Decided).first = max(b.Decided).first
      ⇒ max(a.Decided) = max(b.Decided); (I2)
    eventually ∀ a : a.Decided ≠ {}; (E2)
  }
}
