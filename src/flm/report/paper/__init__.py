"""The page of `flm paper`: `page` puts the paper's tables beside ours, `figures` draws its figures from stored runs."""
