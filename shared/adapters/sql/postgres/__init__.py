"""
PostgreSQL: several processes on one database, by leases. Rules: docs/stores.md.

`connecting` opens connections and says what to do where they fail; `schema` makes the tables.
`transaction` has what a transaction says, `committer` commits the writes of this process and knows
under which id and number it lives, `connections` has all other transactions, and `processes` renews
this process and judges others. `database` is made of these, `store` of it and of what both
databases share; `attempts` keeps attempts by day.

What is set once all is made, and who calls it: `database.in_hand` and `database.lost` (the leases';
the committer, on its thread), `processes.found_dead` (the leases'; on the thread that observes),
`leases.lost` (the server's deliveries; on the event loop), `sender.has_share` (the home's; on the
event loop).
"""
