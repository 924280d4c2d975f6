"""The report of finished runs: `tables` in four notations, `own_runs`, and the `page`."""
