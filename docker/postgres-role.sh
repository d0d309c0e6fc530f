#!/bin/sh
# Makes what servers need, in an empty cluster: a role without a superuser's rights, and its database.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$PUSHGRID_DATABASE_PASSWORD" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
CREATE ROLE pushgrid LOGIN PASSWORD :'password';
CREATE DATABASE events OWNER pushgrid;
SQL
