"""Datasets: made, stored, opened, and read from files of others.

`problems` are the four problems of the paper as records. `generate` makes their samples, in memory
or by the `workers` in a folder, whose files are `manifest` and `shards` (docs/data_format.md).
`dataset` is a view on samples, whose `sources` are arrays, folders or pairs. `own` reads any file
as a `layout` says it, `array_files`, `well` and `import_published` the kinds of files.
"""
