"""The report of finished runs: `tables` in four notations, and the `page`."""
