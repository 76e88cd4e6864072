"""Self-contained HTML: `layout` has the parts of a page; `answer`, `study` (many runs) and `demo` (the tour) make pages."""
