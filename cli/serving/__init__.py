"""What `pushgrid serve` does beside serving: it keeps the deployment as a file says."""
