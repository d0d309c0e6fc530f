"""
Stores all of a deployment in an SQL database.

`sqlite` and `postgres` run transactions (`database.py`) in groups (`group_writer.py`). All else is
for both; where their words differ, `dialects.py` has them. What a transaction does to messages:
`messages.py`, `claiming.py`, `settling.py`. What a process has of them: `leases.py`, `hand.py`,
`suspects.py`.
"""
