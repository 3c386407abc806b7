// Gives a lock to one node at a time.
//
// A node says Acquire(), is told Grant(number) when the lock is its own, and says Release().
// Numbers only go up, so that what the lock protects can refuse who comes with an old one. If the
// node that has the lock crashes, another one gets it. Among those that wait, the order is that of
// their names.
//
// How it agrees. The root proposes one holder under a number. A node accepts at most one proposal
// of a number, and only of numbers above those it has accepted. What every node has accepted is
// agreed, and is made known as Decided; the next number is tried when all know that. So another
// root finds out from the nodes what the one before may have decided.
protocol DistributedLock {
  interface {
    callback Acquire();
    callback Release();
    Grant(int number);
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
    bool Wants = false;
    intset Released;
    // The number under which the node has the lock, or 0.
    int Held = 0;
    bool Busy = false;
    set<address> Waiting;
  }

  bindings {
    on Acquire() : if (¬Wants) {
      // What the node had before it started again is lost.
      if (max(Decided).second = self) Released += max(Decided).first;
      Wants := true;
    } (B1)
    on Release() : {
      if (Held > 0) Released += Held;
      Wants := false;
    } (B2)
    on update Held(assign k) : if (k > 0) Grant(k); (B3)
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
    local.Busy := Wants ∧ Accepted ≠ {} ∧ max(Accepted).second = self
      ∧ ¬(max(Accepted).first ∈ Released); (R13)
    // Only what it has accepted last: a node that started again may not know yet what was decided.
    local.Held := if Busy ∧ Newest ⊆ Decided then max(Accepted).first else 0; (R14)
    Busy := [mono, all, strict] children(∨).Busy; (R15)
    local.Waiting := if Wants ∧ ¬Busy then {self} else {}; (R16)
    Waiting := [mono, all, strict] children(top(1)).Waiting; (R17)
    global.Decided ∪= {max(Accepted)}; (R18)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted ∧ (Learned < Number ∨ Busy ∨ Waiting = {}) then Newest
      else {<Number + 1, max(Waiting)>}; (R19)
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
    invariant ∀ a, b : a.Held > 0 ∧ b.Held > 0 ⇒ a = b; (I2)
    // Whoever waits, waits for somebody.
    eventually ∀ a : a.Wants ⇒ global.Busy; (E2)
  }
}
