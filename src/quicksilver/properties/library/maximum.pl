// Finds the greatest value of all nodes.
//
// A node says Set(v) when its value changes; every node is told Report(v) when the result does.
// Values of nodes that crash are no longer part of it.
protocol Maximum {
  interface {
    callback Set(int v);
    Report(int v);
  }

  properties {
    int Value;
    int Result;
  }

  bindings {
    on Set(v) : Value := v; (B1)
    on update Result(assign v) : Report(v); (B2)
  }

  rules {
    Value := [strict] children(max).Value; (R1)
    global.Result := Value; (R2)
    Result := parent.Result; (R3)
  }

  invariants {
    eventually ∀ a, b : a.Result = b.Result; (E1)
    eventually ∀ a : a.Result = global.Value; (E2)
    eventually ∀ a : a.Result ≥ a.Value; (E3)
  }
}
