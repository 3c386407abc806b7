// Holds nodes back until all have come.
//
// A node says Arrive(k) when it has come to barrier k, and is told Pass(k) when every node has. A
// node that starts again counts once it has come as far as the others.
protocol Barrier {
  interface {
    callback Arrive(int k);
    Pass(int k);
  }

  properties {
    int Arrived = 0;
    int Open = 0;
  }

  bindings {
    on Arrive(k) : Arrived max= k; (B1)
    on update Open(assign k) : Pass(k); (B2)
  }

  rules {
    Arrived := [mono, all, strict] children(min).Arrived; (R1)
    global.Open := Arrived; (R2)
    Open max= parent.Open; (R3)
  }

  conditions {
    parent.Arrived ≤ Arrived; (C1)
  }

  invariants {
    // Whoever has passed knows that all have come.
    invariant ∀ a, b : a.Open ≤ b.Arrived; (I1)
    eventually ∀ a, b : a.Open = b.Open; (E1)
  }
}
