// Tells nodes which messages they need not keep (dissertation, Code 5.1).
//
// A node says Receive(m) when it has message m. As soon as every node has m, and not before, every
// node is asked to DoCleanup(m).
protocol Cleanup {
  interface {
    callback Receive(int m);
    DoCleanup(int m);
  }

  properties {
    intset Stable;
    intset Cleanup;
  }

  bindings {
    on Receive(m) : Stable += m; (B1)
    on update Cleanup(added A) : foreach (m in A) DoCleanup(m); (B2)
  }

  rules {
    Stable := [mono, all, strict] children(∩).Stable; (R1)
    global.Cleanup := Stable; (R2)
    Cleanup ∪= parent.Cleanup; (R3)
  }

  conditions {
    parent.Stable ⊆ Stable; (C1)
  }

  invariants {
    // What one node may forget, every node has.
    invariant ∀ a, b : a.Cleanup ⊆ b.Stable; (I1)
    eventually ∀ a, b : a.Cleanup = b.Cleanup; (E1)
  }
}
