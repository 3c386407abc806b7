// Takes all nodes from phase to phase together (dissertation, Code 5.2).
//
// A node is told Phase(k) when every node has been told Phase(k - 1): two nodes are never more
// than one phase apart.
protocol CoordinatedPhases {
  interface {
    Phase(int k);
  }

  properties {
    int Last = 0;
    int Next;
  }

  bindings {
    on update Next(assign k) : Phase(k); (B1)
  }

  rules {
    Last := [mono, all, strict] children(min).Last; (R1)
    global.Next := Last + 1; (R2)
    Next [mono] := parent.Next; (R3)
    local.Last := Next; (R4)
  }

  conditions {
    parent.Last ≤ Last; (C1)
  }

  invariants {
    invariant ∀ a, b : a.Next ≤ b.Last + 1; (I1)
    eventually ∀ a : a.Next ≥ 2; (E1)
  }
}
