"""Try trained operators in a browser: a local server with solvers, or a page without a server."""
