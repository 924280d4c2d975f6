"""Tables, figures and verdicts from run folders; the only package that imports matplotlib.

runs        run folders, their facts and budgets, groups of seeds
published   the numbers of the paper
claims      the table of claims, five predicates, the verdicts
tables      a table in three notations, and those of the paper; summary: as plain text
figures_*   errors, fields, symbols; style: of them all
your_runs   every run, whatever its recipe; views: what data and runs draw of themselves
page        the page of a report, from the entries of tables and figures
"""
