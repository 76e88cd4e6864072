"""The paper: its printed values, its protocol, and the runs that reproduce its tables and figures."""
