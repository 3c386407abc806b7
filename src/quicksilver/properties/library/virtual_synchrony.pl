// Changes views such that all nodes that go on have the same messages in each view.
//
// A node says Receive(m) when message m, a number above 0, has come, and Stop(v) when the
// membership has announced view v and the node sends no more in the view before. It is asked to
// Fetch(m) when others have m, told Deliver(m) in one order at all nodes, and told Install(v) at
// one place of that order: when all have stopped and everything that any of them has is delivered.
// -v stands for view v below.
//
// How it agrees. The root proposes one message or view under a number. A node accepts at most one
// proposal of a number, and only of numbers above those it has accepted. What every node has
// accepted is agreed, and is made known as Decided; the next number is tried when all know that.
// So another root finds out from the nodes what the one before may have decided.
protocol VirtualSynchrony {
  interface {
    callback Receive(int m);
    callback Stop(int view);
    Fetch(int m);
    Deliver(int m);
    Install(int view);
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
    intset Known;
    // What a node has and not all have delivered.
    intset Unfinished;
    intset Missing;
    int Stopped = 0;
    int View = 0;
  }

  bindings {
    // After it has stopped, a node takes only what others have.
    on Receive(m) : if (m > 0 ∧ (Stopped ≤ View ∨ m ∈ Missing)) Received += m; (B1)
    on Stop(v) : Stopped max= v; (B2)
    on update Missing(added A) : foreach (m in A) Fetch(m); (B3)
    on update Decided(added D) : foreach (d in D) {
      if (d.second > 0) {
        Done += d.second;
        Deliver(d.second);
      }
      if (d.second < 0) {
        View max= -d.second;
        Install(-d.second);
      }
    } (B4)
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
    // What was delivered before it started, a node has with the state that it takes from others.
    local.Received ∪= Done; (R13)
    Received := [mono, all, strict] children(∩).Received; (R14)
    Done := [mono, all, strict] children(∩).Done; (R15)
    global.Pending := Received \ Done; (R16)
    local.Known := Received; (R17)
    Known := [mono, all, strict] children(∪).Known; (R18)
    Stopped := [mono, all, strict] children(min).Stopped; (R19)
    View := [mono, all, strict] children(min).View; (R20)
    global.Unfinished := Known \ Done; (R21)
    Unfinished [mono] := parent.Unfinished; (R22)
    local.Missing := Unfinished \ (Received ∪ Done); (R23)
    global.Decided ∪= {max(Accepted)}; (R24)
    // Not all have come to the newest; or it is agreed, and not all know it, or nothing new is
    // wanted; or a new number is due.
    global.Proposal := if Newest ≠ {} ∧ max(Newest).first > Number then Newest
      else if Newest ⊆ Accepted
      ∧ (Learned < Number ∨ ¬(Pending ≠ {} ∨ Stopped > View ∧ Unfinished = {})) then Newest
      else {<Number + 1, (if Pending ≠ {} then min(Pending) else -Stopped)>}; (R25)
  }

  conditions {
    parent.Accepted ⊆ Accepted; (C1)
    parent.Number ≤ Number; (C2)
    parent.Learned ≤ Learned; (C3)
    parent.Stopped ≤ Stopped; (C4)
    parent.View ≤ View; (C5)
    parent.Received ⊆ Received; (C6)
    parent.Done ⊆ Done; (C7)
  }

  invariants {
    // Nobody has decided anything else, though some may know less.
    invariant ∀ a, b : a.Decided ⊆ b.Decided ∨ b.Decided ⊆ a.Decided; (I1)
    eventually ∀ a, b : a.Decided = b.Decided; (E1)
    // In one view, two nodes have installed it after the same messages.
    invariant ∀ a, b : a.View = b.View ∧ a.Stopped > a.View ∧ b.Stopped > b.View
      ⇒ a.Done ⊆ b.Done ∨ b.Done ⊆ a.Done; (I2)
    eventually ∀ a : a.View ≤ a.Stopped; (E2)
  }
}
