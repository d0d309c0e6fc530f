"""
A small local host for this app's kinds of function: HTTP, queue and timer, v1 model, one process.

It knows what Azure Functions does to a function app, and nothing about the app.
"""
