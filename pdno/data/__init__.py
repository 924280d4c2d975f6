"""Datasets: made, stored, opened, and read from files of others.

`problems` are the four problems of the paper as records. `generate` makes their samples, in memory
or by the `workers` in a folder, whose files are `manifest` and `shards` (docs/data_format.md).
`dataset` opens and splits it. `array_files` read your own files, `import_published` the published.
"""
