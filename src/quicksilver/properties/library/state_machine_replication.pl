// Carries out the same commands on all nodes in the same order.
//
// Any node says Submit(command); commands are numbers that differ. Every node is told
// Apply(position, command) by ascending positions. A node that starts again is told all commands
// from the first one, and counts once it knows what the others know.
//
// How it agrees. The root proposes one command under a number. A node accepts at most one proposal
// of a number, and only of numbers above those it has accepted. What every node has accepted is
// agreed, and is made known as Decided; the next number is tried when all know that. So another
// root finds out from the nodes what the one before may have decided.
protocol StateMachineReplication {
  interface {
    callback Submit(int command);
    Apply(int position, int command);
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
    intset Submitted;
    intset Done;
    intset Waiting;
  }

  bindings {
    on Submit(c) : Submitted += c; (B1)
    on update Decided(added D) : foreach (d in D) {
      Done += d.second;
      Apply(d.first, d.second);
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
    Submitted := [mono, all, strict] children(∪).Submitted; (R13)
    Done := [mono, all, strict] children(∩).Done; (R14)
    global.Waiting := Submitted \ Done; (R15)
    global.Decided ∪= {max(Accepted)}; (R16)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted ∧ (Learned < Number ∨ Waiting = {}) then Newest
      else {<Number + 1, min(Waiting)>}; (R17)
  }

  conditions {
    parent.Accepted ⊆ Accepted; (C1)
    parent.Number ≤ Number; (C2)
    parent.Learned ≤ Learned; (C3)
    parent.Done ⊆ Done; (C4)
  }

  invariants {
    // Nobody has decided anything else, though some may know less.
    invariant ∀ a, b : a.Decided ⊆ b.Decided ∨ b.Decided ⊆ a.Decided; (I1)
    eventually ∀ a, b : a.Decided = b.Decided; (E1)
    // What a living node has submitted is carried out everywhere.
    eventually ∀ a, b : a.Submitted ⊆ b.Done; (E2)
  }
}
