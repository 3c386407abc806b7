"""The programs that the papers print, letter for letter."""

CODE_5_1 = """\
protocol Cleanup
{
interface
{
callback Receive(int m);
DoCleanup(int m);
}

properties
{
intset Stable;
intset Cleanup;
}

bindings
{
on Receive(m) : Stable += m; (B1)
on update Cleanup(added A) : foreach (m in A) DoCleanup(m); (B2)
}

rules
{
Stable := [mono ,all, strict] children(∩).Stable; (R1)
global.Cleanup := Stable; (R2)
Cleanup ∪= parent.Cleanup; (R3)
}

conditions
{
parent.Stable ⊆ Stable; (C1)
}
}
"""

CODE_5_2 = """\
protocol CoordinatedPhases
{
interface
{
Phase(int k);
}

properties
{
int Last = 0;
int Next;
}

bindings
{
on update Next(assign k) : Phase(k); (B1)
}

rules
{
Last := [mono ,all, strict] children(min).Last; (R1)
global.Next := Last + 1; (R2)
Next [mono] := parent.Next; (R3)
local.Last := Next; (R4)
}

conditions
{
parent.Last ≤ Last; (C1)
}
}
"""
