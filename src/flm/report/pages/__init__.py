"""Pages: self-contained HTML. `layout` has the parts of a page and writes it, for people and for other tools.

`answer` makes the page of a solution, a control law or a fit, `study` that of many runs; `demo` makes the tour.
"""
