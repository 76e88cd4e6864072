"""The page of `flm paper`: the paper's tables and figures beside ours."""
