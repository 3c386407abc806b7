// Finds the nodes with the greatest values.
//
// A node says Set(v) when its value changes. Every node is told Rank(v, who) of each of the
// greatest values whenever one of them changes, the smallest first.
protocol Top(int count = 3) {
  interface {
    callback Set(int v);
    Rank(int v, address who);
  }

  properties {
    set<pair<int, address>> Best;
    set<pair<int, address>> Result;
  }

  bindings {
    on Set(v) : Best := {<v, self>}; (B1)
    on update Result(assign R) : foreach (one in R) Rank(one.first, one.second); (B2)
  }

  rules {
    Best := [strict] children(top(count)).Best; (R1)
    global.Result := Best; (R2)
    Result := parent.Result; (R3)
  }

  invariants {
    invariant ∀ a : |a.Result| ≤ count; (I1)
    eventually ∀ a, b : a.Result = b.Result; (E1)
    // Who is not among the best has no more than the last of them.
    eventually ∀ a : a.Best ⊆ a.Result ∨ max(a.Best) ≤ min(a.Result); (E2)
  }
}
