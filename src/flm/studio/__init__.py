"""The workbench in the browser, on this machine alone: problems as text, solves with a cancel button, the live page beside.

`guard` keeps strangers out, `desk` is the folder with the texts, `job` the one solve at a time, a process of its own that runs
`work`; `server` joins them. Needs the extra `studio`.
"""
