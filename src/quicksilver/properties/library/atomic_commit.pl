// Commits a transaction on all nodes or on none.
//
// Every node says Vote(t, yes) of transaction t, a number above 0; a node that cannot wait any
// longer for another one votes no. Every node is told Commit(t) if all have voted yes, and
// Abort(t) if one has voted no. Outcome t stands for a commit below, -t for an abort.
//
// How it agrees. The root proposes one outcome under a number. A node accepts at most one proposal
// of a number, and only of numbers above those it has accepted. What every node has accepted is
// agreed, and is made known as Decided; the next number is tried when all know that. So another
// root finds out from the nodes what the one before may have decided.
protocol AtomicCommit {
  interface {
    callback Vote(int t, bool yes);
    Commit(int t);
    Abort(int t);
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
    intset Yes;
    intset No;
    intset Committed;
    intset Aborted;
    intset Settled;
    // At the root: transactions that can be committed, and those that cannot.
    intset Ready;
    intset Veto;
  }

  bindings {
    on Vote(t, yes) : if (t > 0 ∧ ¬(t ∈ Yes ∪ No ∪ Settled)) {
      if (yes) Yes += t;
      else No += t;
    } (B1)
    on update Decided(added D) : foreach (d in D) {
      Settled += if d.second > 0 then d.second else -d.second;
      if (d.second > 0) {
        // A vote of a node that started again can come too late.
        No -= d.second;
        Committed += d.second;
        Commit(d.second);
      } else {
        Aborted += -d.second;
        Abort(-d.second);
      }
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
    Yes := [all, strict] children(∩).Yes; (R13)
    No := [all, strict] children(∪).No; (R14)
    Settled := [mono, all, strict] children(∩).Settled; (R15)
    global.Ready := Yes \ Settled; (R16)
    global.Veto := No \ Settled; (R17)
    global.Decided ∪= {max(Accepted)}; (R18)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted ∧ (Learned < Number ∨ Ready ∪ Veto = {}) then Newest
      else {<Number + 1, (if Veto ≠ {} then -min(Veto) else min(Ready))>}; (R19)
  }

  conditions {
    parent.Accepted ⊆ Accepted; (C1)
    parent.Number ≤ Number; (C2)
    parent.Learned ≤ Learned; (C3)
    parent.Settled ⊆ Settled; (C4)
  }

  invariants {
    // Nobody has decided anything else, though some may know less.
    invariant ∀ a, b : a.Decided ⊆ b.Decided ∨ b.Decided ⊆ a.Decided; (I1)
    eventually ∀ a, b : a.Decided = b.Decided; (E1)
    invariant ∀ a, b : a.Committed ∩ b.Aborted = {}; (I2)
    invariant ∀ a, b : a.Committed ∩ b.No = {}; (I3)
    // Nobody's no is passed over.
    eventually ∀ a, b : a.No ⊆ b.Aborted; (E2)
  }
}
