// Brings a new configuration to all nodes, and into use when enough have it.
//
// A node says Propose(v) to bring out version v, which is greater than those before. Every node is
// asked to Store(v), and says Stored(v) when it has. When `quorum` nodes have stored the newest
// version, every node is told Use(v). Nodes that are slow or down hold nobody up.
protocol ConfigurationRollout(int quorum = 2) {
  interface {
    callback Propose(int version);
    callback Stored(int version);
    Store(int version);
    Use(int version);
  }

  properties {
    int Proposed = 0;
    int Newest = 0;
    int Held = 0;
    map<int, int> Holders;
    int Active = 0;
  }

  bindings {
    on Propose(v) : Proposed max= v; (B1)
    on Stored(v) : Held max= v; (B2)
    on update Newest(assign v) : Store(v); (B3)
    on update Active(assign v) : Use(v); (B4)
  }

  rules {
    Proposed max= children(max).Proposed; (R1)
    global.Newest max= Proposed; (R2)
    Newest max= parent.Newest; (R3)
    // So a version outlives the node that proposed it.
    local.Proposed max= Newest; (R4)
    local.Holders := {<Held, 1>}; (R5)
    Holders := [strict] children(+).Holders; (R6)
    global.Active max= if Newest ∈ Holders ∧ Holders[Newest] ≥ quorum then Newest else 0; (R7)
    Active max= parent.Active; (R8)
  }

  invariants {
    invariant ∀ a : a.Active ≤ a.Newest; (I1)
    eventually ∀ a, b : a.Newest = b.Newest; (E1)
    eventually ∀ a, b : a.Active = b.Active; (E2)
  }
}
