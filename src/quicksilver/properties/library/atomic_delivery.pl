// Delivers a message to all nodes or to none.
//
// A node says Receive(m) when message m has come, and holds it back until it is told Deliver(m),
// which happens once every node has m. So no node acts on a message that another one may never
// get.
protocol AtomicDelivery {
  interface {
    callback Receive(int m);
    Deliver(int m);
  }

  properties {
    intset Received;
    intset Decided;
    intset Delivered;
  }

  bindings {
    on Receive(m) : Received += m; (B1)
    on update Delivered(added A) : foreach (m in A) Deliver(m); (B2)
  }

  rules {
    Received := [mono, all, strict] children(∩).Received; (R1)
    global.Decided := Received; (R2)
    Decided ∪= parent.Decided; (R3)
    // A node that has started again is told of messages that it does not have yet.
    local.Delivered ∪= Decided ∩ Received; (R4)
  }

  conditions {
    parent.Received ⊆ Received; (C1)
  }

  invariants {
    invariant ∀ a, b : a.Delivered ⊆ b.Received; (I1)
    eventually ∀ a, b : a.Delivered = b.Delivered; (E1)
  }
}
