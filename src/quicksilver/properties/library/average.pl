// Finds the average of the values of all nodes, rounded down.
//
// A node says Set(v) when its value changes; every node is told Report(v) when the average does.
// Sums and numbers of values go up the tree together, as pairs; only the root divides.
protocol Average {
  interface {
    callback Set(int v);
    Report(int v);
  }

  properties {
    pair<int, int> Sample;
    int Result;
  }

  bindings {
    on Set(v) : Sample := <v, 1>; (B1)
    on update Result(assign v) : Report(v); (B2)
  }

  rules {
    Sample := [strict] children(+).Sample; (R1)
    global.Result := Sample.first / Sample.second; (R2)
    Result := parent.Result; (R3)
  }

  invariants {
    invariant ∀ a : a.Sample.second = 1; (I1)
    eventually ∀ a, b : a.Result = b.Result; (E1)
    eventually ∀ a : a.Result = global.Sample.first / global.Sample.second; (E2)
  }
}
