"""The language server: what ``document`` knows, in the terms of the Language Server Protocol.

It speaks over standard input and output; editors start it with ``quicksilver pl serve``.
"""

from __future__ import annotations

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.editor.document import Document, Sort
from quicksilver.properties.syntax.format import format_program
from quicksilver.properties.syntax.source import Place, Source, Span

_KINDS: dict[Sort, types.CompletionItemKind] = {
    "property": types.CompletionItemKind.Field,
    "parameter": types.CompletionItemKind.Constant,
    "callback": types.CompletionItemKind.Event,
    "request": types.CompletionItemKind.Method,
    "variable": types.CompletionItemKind.Variable,
    "label": types.CompletionItemKind.Reference,
    "word": types.CompletionItemKind.Keyword,
}


def position_of(source: Source, offset: int) -> types.Position:
    """Return a place as editors count: lines from 0, columns in units of UTF-16."""
    place = source.locate(offset)
    before = source.text[offset - place.column + 1 : offset]
    return types.Position(place.line - 1, len(before.encode("utf-16-le")) // 2)


def offset_of(source: Source, position: types.Position) -> int:
    """Return the character at a place that an editor names."""
    start = source.offset(Place(position.line + 1, 1))
    end = source.text.find("\n", start)
    line = source.text[start : end if end >= 0 else len(source.text)]
    units = line.encode("utf-16-le")[: 2 * position.character]
    return start + len(units.decode("utf-16-le", errors="ignore"))


def range_of(source: Source, span: Span) -> types.Range:
    return types.Range(position_of(source, span.start), position_of(source, span.end))


def describe(found: Diagnostic, source: Source) -> types.Diagnostic:
    """Return a finding as editors show it."""
    is_error = found.severity == "error"
    said = "; ".join(filter(None, (found.text, found.why, found.suggestion)))
    return types.Diagnostic(
        range=range_of(source, found.span),
        message=said,
        severity=types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        code=found.code,
        source="quicksilver pl",
    )


class Documents:
    """Open texts; each is checked once for each change."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}

    def become(self, uri: str, text: str) -> Document:
        """Take the text that a document has now."""
        known = self._open.get(uri)
        if known is None or known.text != text:
            known = self._open[uri] = Document(text, uri)
        return known

    def close(self, uri: str) -> None:
        """Forget a document."""
        self._open.pop(uri, None)


def make_server(version: str) -> LanguageServer:
    """Return a server that says it is of a version; ``start_io`` runs it."""
    server = LanguageServer(
        "quicksilver-pl", version, text_document_sync_kind=types.TextDocumentSyncKind.Full
    )
    documents = Documents()

    def document_of(uri: str) -> Document:
        return documents.become(uri, server.workspace.get_text_document(uri).source)

    def publish(uri: str) -> None:
        document = document_of(uri)
        source = document.checked.parsed.source
        found = [describe(one, source) for one in document.checked.diagnostics]
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=found)
        )

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        documents.close(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document = document_of(params.text_document.uri)
        source = document.checked.parsed.source
        found = document.hover(offset_of(source, params.position))
        if found is None:
            return None
        return types.Hover(contents=found[1], range=range_of(source, found[0]))

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "[", "("])
    )
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        document = document_of(params.text_document.uri)
        offset = offset_of(document.checked.parsed.source, params.position)
        return [
            types.CompletionItem(label=one.text, kind=_KINDS[one.sort], detail=one.detail)
            for one in document.complete(offset)
        ]

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        document = document_of(uri)
        source = document.checked.parsed.source
        found = document.declaration_at(offset_of(source, params.position))
        return None if found is None else types.Location(uri, range_of(source, found.span))

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = document_of(params.text_document.uri)
        parsed = document.checked.parsed
        if parsed.program is None or parsed.diagnostics:
            return []
        whole = range_of(parsed.source, Span(0, len(document.text)))
        return [types.TextEdit(whole, format_program(parsed))]

    return server
