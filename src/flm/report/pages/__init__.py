"""Pages: self-contained HTML. `layout` has the parts of a page, and there is a module for each kind of answer.

`solution`, `control`, `fit` and `study` turn an answer into a `Page`, `demo` takes the tour, and `files` writes a page with
its tables and pictures for other tools.
"""
