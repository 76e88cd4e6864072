"""Many runs: a specification, a store that survives anything, execution on all cores, and honest selection."""
