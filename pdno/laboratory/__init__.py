"""Try trained operators in a browser: a local server with solvers, or a page without a server.

catalogue   the operators of some run folders: what they take, predict and look like inside
solver      a process of its own that solves, so that a solve can be ended at any moment
limits      what a request may do
server      `pdno serve`: the catalogue over HTTP, on this machine only
page        `pdno export --format page`: a folder for any static host
web         the page of both, plain HTML, CSS and JavaScript
"""
