"""The page of the paper beside ours."""
