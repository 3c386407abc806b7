"""What is declared and not used is probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, writes_of
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    program, used = context.program, context.typing.used
    written = {write.name for write in writes_of(context)}
    for one in program.properties:
        name = one.name.text
        if name not in used and name not in written:
            yield _say(one.name, f"{name} is not used", "remove it")
        elif name not in written:
            if one.initial is None:
                yield _say(one.name, f"nothing assigns {name}", "give it an initial value")
        elif name not in used:
            yield _say(one.name, f"nothing reads {name}", "bind it with on update, or remove it")
    for parameter in program.parameters:
        if parameter.name.text not in used:
            yield _say(parameter.name, f"{parameter.name.text} is not used", "remove it")
    bound = {b.event.text for b in program.bindings if isinstance(b, tree.OnEvent)}
    asked = {
        node.name.text
        for binding in program.bindings
        for node in binding.walk()
        if isinstance(node, tree.Request)
    }
    for event in program.events:
        name = event.name.text
        if event.is_callback and name not in bound:
            yield _say(event.name, f"no binding waits for {name}", f"write on {name}(...) : ...")
        elif not event.is_callback and name not in asked:
            yield _say(event.name, f"no binding makes the request {name}", "remove it")


def _say(node: tree.Node, text: str, suggestion: str) -> Diagnostic:
    return Diagnostic(
        code="unused", span=node.span, text=text, suggestion=suggestion, severity="warning"
    )
