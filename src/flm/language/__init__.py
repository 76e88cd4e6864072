"""How problems are written: functions read by the names of their arguments, expressions as text, the outline of TOML files."""
