"""User interface: errors with a remedy, option records, progress, notebook views."""
