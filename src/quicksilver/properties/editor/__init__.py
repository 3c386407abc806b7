"""Help for editors: a TextMate grammar, and a language server."""
