"""HTTP functions: the server, the routes, requests, answers and the host's own pages."""
