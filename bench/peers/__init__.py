"""Compares Pushgrid with BullMQ on Redis and Celery on RabbitMQ: same load, subscriber and run."""

from bench.peers.comparison import main as main
