"""Datasets: made, stored, opened, and read from files of others.

`problems` are the four problems of the paper as records. `generate` makes their samples, in memory
or by the `workers` in a folder, whose files are `manifest` and `shards` (docs/data_format.md).
`dataset` opens and splits it. `import_published` and `import_arrays` read the published files and
your own; both look into files with `array_files`.
"""
