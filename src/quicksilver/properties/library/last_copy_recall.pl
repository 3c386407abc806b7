// Recovers messages among peers, and forgets them when all have them (overview paper, Tables 1 and
// 2).
//
// A node says Receive(m) when it has message m. A node that has what its neighbour lacks is asked
// to Forward(to, m). When every node has m, every node is asked to Clean(m).
//
// Table 1 calls what nodes report Agg, what they are told Msg; (A...) and (M...) are those rows
// here, and (T...) are the rows of Table 2.
protocol LastCopyRecall {
  interface {
    callback Receive(int m);
    Forward(address to, int m);
    Clean(int m);
  }

  properties {
    intset Received;
    intset Cleaned;
    intset Cached;
    intset Stable;
    map<address, intset> Fwd;
    map<address, intset> NoFwd;
    intset Clean;
  }

  bindings {
    on Receive(m) : Received += m; (B1)
    on update Fwd(added F) : foreach (f in F) foreach (m in f.second) Forward(f.first, m); (B2)
    on update NoFwd(added F) : foreach (f in F) Fwd[f.first] -= f.second; (B3)
    on update Clean(added A) : {
      Cleaned += A;
      foreach (m in A) Clean(m);
    } (B4)
  }

  rules {
    Received ∪= children(∪).Received; (A1)
    Cleaned := [mono, all, strict] children(∩).Cleaned; (A2)
    Stable := [mono, all, strict] children(∩).Stable; (A3)
    Clean ∪= children(∪).Clean; (A4)
    Fwd ∪= parent(select).Fwd; (M1)
    NoFwd ∪= parent.NoFwd; (M2)
    Clean ∪= parent.Clean; (M3)
    Cached := Received \ Cleaned; (T1)
    Fwd(x) ∪= <y, Cached(x) \ Received(y)>; (T2)
    NoFwd(x) ∪= <y, Received(y)>; (T3)
    local.Stable ∪= Received; (T4)
    global.Clean ∪= Stable; (T5)
  }

  conditions {
    parent.Stable ⊆ Stable; (C1)
  }

  invariants {
    invariant ∀ a, b : a.Clean ⊆ b.Received; (I1)
    eventually ∀ a, b : a.Clean = b.Clean; (E1)
  }
}
