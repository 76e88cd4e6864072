"""The paper: the numbers that it prints, its recipe, and the runs that its tables and figures need.

`printed` has the paper's numbers, and `protocol` its recipe, with other ready specifications of studies in `protocols/`. `plan`
says which runs make the page, each of them a run of a study: training by `flm.study.runs`, our solver and control by `runs`,
the series of oil temperature by `imputation`. They are kept in one store, from which `flm.report.paper` makes the page, so
that a page can be made again without computing.
"""
