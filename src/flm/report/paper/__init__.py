"""The page of `flm paper`: `page` puts together the paper's tables beside ours, `control` its part on optimal control, and
`figures` draws the paper's figures from stored runs.
"""
