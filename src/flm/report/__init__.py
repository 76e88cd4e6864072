"""What people look at: figures, pages, and the files of an answer. The only part of the package that imports matplotlib.

An answer becomes figures (`figures/`), a figure that evaluates it (`live`), a page of figures, tables and commands (`pages/`,
`paper/`), and a folder of files for people and machines (`files`). Nothing here computes an answer except the tour, `flm demo`.
"""
