"""Tables, figures and verdicts from run folders; the only package that imports matplotlib.

runs        run folders, their facts and budgets, groups of seeds
published   the numbers of the paper
claims      the table of claims, five predicates, the verdicts
table       a table in three notations; tables: those of the paper; summary: as plain text
figures_*   errors, fields, heat, symbols; style: of them all
page        the tables and figures of a report, and its page
"""
