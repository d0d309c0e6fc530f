"""PostgreSQL: several processes on one database, by leases. Rules: docs/stores.md."""
