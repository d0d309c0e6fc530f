"""The HTTP front: connections with deadlines, requests as values, and who may send them."""
