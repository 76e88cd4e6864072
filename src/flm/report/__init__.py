"""What people look at: figures, tables and pages. The only part of the package that imports matplotlib."""
